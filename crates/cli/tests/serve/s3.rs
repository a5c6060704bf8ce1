//! Files in a bucket: a real server on S3's protocol, with a stand-in for S3 on this machine.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::serving::{PATIENCE, Server, breathe, folder, now, serve_in};

/// The program that stands in; `make test` has it ready, and it is made here where a test is run by itself.
fn moto() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let ready = Command::new(root.join("scripts/setup")).arg("moto").status();
    assert!(
        ready.expect("scripts/setup runs").success(),
        "scripts/setup moto failed"
    );
    target.join("python-moto/bin/moto_server")
}

/// A bucket named `docket`.
struct Bucket {
    process: Child,
    url: String,
}

impl Bucket {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
        let address = listener.local_addr().expect("it has an address");
        drop(listener);
        let process = Command::new(moto())
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the stand-in starts");
        let bucket = Self {
            process,
            url: format!("http://{address}"),
        };
        let begun = now();
        while TcpStream::connect(address).is_err() {
            assert!(begun.elapsed() < PATIENCE * 2, "the stand-in does not listen");
            breathe();
        }
        let made = reqwest::Client::new()
            .put(format!("{}/docket", bucket.url))
            .send()
            .await;
        assert_eq!(made.expect("the stand-in answers").status(), 200);
        bucket
    }

    /// The names of what lies in it.
    async fn keys(&self) -> Vec<String> {
        let listed = reqwest::get(format!("{}/docket?list-type=2", self.url)).await;
        let text = listed
            .expect("the stand-in answers")
            .text()
            .await
            .expect("it is whole");
        let keys = text.split("<Key>").skip(1);
        keys.filter_map(|rest| rest.split_once("</Key>"))
            .map(|(key, _)| key.to_owned())
            .collect()
    }

    /// What a server has to know of it.
    fn config(&self) -> String {
        format!(
            "[files]\nurl = \"s3://docket/files\"\n\
             options = {{ aws_endpoint = \"{}\", aws_allow_http = \"true\", aws_region = \"us-east-1\", \
             aws_access_key_id = \"test\", aws_secret_access_key = \"test\" }}\n",
            self.url
        )
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

async fn upload(server: &Server, key: &str, bytes: Vec<u8>) -> (u16, Value) {
    let request = reqwest::Client::new().post(format!("{}/api/v1/collections/docs/documents", server.url));
    let request = request
        .bearer_auth(key)
        .header("content-type", "application/pdf")
        .header("x-filename", "a.pdf");
    let answer = request.body(bytes).send().await.expect("it is answered");
    let status = answer.status().as_u16();
    (status, answer.json().await.expect("the answer is JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_go_to_a_bucket_in_pieces_and_come_back_whole() {
    let (bucket, folder) = (Bucket::start().await, folder());
    let config = folder.path().join("docket.toml");
    std::fs::write(&config, bucket.config()).expect("a file can be written");
    let data = folder.path().join("data");
    let mut command = serve_in(&data);
    command.arg("--config").arg(&config);
    let server = Server::start(command);
    let (producer, _) = server.world(&server.admin_key()).await;
    // One that goes in a single piece, and one of several.
    for size in [1_000, 20_000_000_u32] {
        let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let (status, item) = upload(&server, &producer, bytes.clone()).await;
        assert_eq!(status, 201, "{item}");
        let (status, again) = upload(&server, &producer, bytes.clone()).await;
        assert_eq!(
            (status, &again["duplicate"]),
            (200, &Value::Bool(true)),
            "{again}"
        );
        let id = item["id"].as_str().expect("it has an id");
        let content = || {
            let get = reqwest::Client::new().get(format!("{}/api/v1/items/{id}/content", server.url));
            get.bearer_auth(&producer)
        };
        let whole = content().send().await.expect("it is answered");
        assert!(
            whole.bytes().await.expect("it is whole") == bytes,
            "other bytes came back"
        );
        let part = content()
            .header("range", "bytes=10-19")
            .send()
            .await
            .expect("it is answered");
        assert_eq!(part.status(), 206);
        assert_eq!(part.bytes().await.expect("it is whole"), bytes[10..20]);
    }
    let keys = bucket.keys().await;
    assert_eq!(keys.len(), 2, "a duplicate leaves nothing behind: {keys:?}");
    assert!(keys.iter().all(|key| key.starts_with("files/")), "{keys:?}");
    assert!(!data.join("blobs").exists(), "nothing lies on this machine");
    server.stop();
}
