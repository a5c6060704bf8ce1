//! Traces by OTLP: what a request did arrives at whoever is named to take it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;

use crate::serving::{PATIENCE, Server, folder, serve_in};

/// Takes what is posted, for as long as the test lives: the path and the body of each.
fn receiver() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let (taken, posts) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            while let Some(post) = read_post(&mut reader) {
                let answer =
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
                if taken.send(post).is_err() || reader.get_mut().write_all(answer).is_err() {
                    return;
                }
            }
        }
    });
    (url, posts)
}

/// The next request of a connection; none at its end.
fn read_post(reader: &mut BufReader<std::net::TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head.lines().next()?.to_owned(), body))
}

#[tokio::test]
async fn spans_of_requests_arrive_by_otlp() {
    let (url, posts) = receiver();
    let folder = folder();
    let mut command = serve_in(folder.path());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &url);
    let server = Server::start(command);
    let asked = reqwest::Client::new()
        .get(format!("{}/api/v1/keys", server.url))
        .header("x-request-id", "traced-17")
        .bearer_auth(server.admin_key());
    assert_eq!(asked.send().await.expect("it is answered").status(), 200);
    // What is left is sent at the end.
    server.stop();
    let mut sent = Vec::new();
    let has = |sent: &[u8], word: &str| sent.windows(word.len()).any(|part| part == word.as_bytes());
    while !has(&sent, "traced-17") {
        let (line, body) = posts.recv_timeout(PATIENCE).expect("the span is sent");
        assert!(line.starts_with("POST /v1/traces "), "{line}");
        sent.extend(body);
    }
    for word in ["service.name", "docket", "request", "/api/v1/keys", "GET"] {
        assert!(has(&sent, word), "'{word}' is not in what was sent");
    }
}

#[tokio::test]
async fn a_receiver_that_is_away_stops_no_server() {
    let folder = folder();
    let mut command = serve_in(folder.path());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let server = Server::start(command);
    assert_eq!(server.call("GET", "/readyz", "", None).await.0, 200);
    server.stop();
}
