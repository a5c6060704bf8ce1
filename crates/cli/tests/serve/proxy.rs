//! Behind a proxy: those who guess are slowed down by their own address.

use crate::serving::{Server, folder, serve_in};

/// The statuses of so many guesses, through a proxy that speaks for these.
async fn guess(server: &Server, client: &str, guesses: usize) -> Vec<u16> {
    let http = reqwest::Client::new();
    let mut statuses = Vec::new();
    for _ in 0..guesses {
        let asked = http
            .get(format!("{}/api/v1/keys", server.url))
            .header("x-forwarded-for", client)
            .bearer_auth("dk_0123456789012345678901234567890123456789012345678");
        let answer = asked.send().await.expect("it is answered");
        statuses.push(answer.status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn guesses_through_a_trusted_proxy_count_for_the_one_who_guesses() {
    let folder = folder();
    let config = folder.path().join("docket.toml");
    std::fs::write(&config, "[server]\ntrusted_proxies = [\"127.0.0.0/8\"]\n")
        .expect("a file can be written");
    let mut command = serve_in(&folder.path().join("data"));
    command.arg("--config").arg(&config);
    let server = Server::start(command);
    // What the client claims itself stands first, and changes nothing. From the eleventh guess on each doubles the wait.
    let statuses = guess(&server, "198.51.100.1, 203.0.113.9", 20).await;
    assert!(
        statuses.starts_with(&[401; 10]) && statuses.contains(&429),
        "{statuses:?}"
    );
    let statuses = guess(&server, "198.51.100.2, 203.0.113.9", 5).await;
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(
        guess(&server, "198.51.100.1", 1).await,
        [401],
        "others are not concerned"
    );
    server.stop();
}

#[tokio::test]
async fn without_a_trusted_proxy_nobodys_word_is_taken() {
    let folder = folder();
    let server = Server::start(serve_in(folder.path()));
    let mut statuses = Vec::new();
    for n in 0..20 {
        statuses.extend(guess(&server, &format!("203.0.113.{n}"), 1).await);
    }
    assert!(statuses.contains(&429), "{statuses:?}");
    server.stop();
}
