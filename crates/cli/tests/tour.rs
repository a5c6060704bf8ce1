//! The tour in the README: its commands are run as they stand, and what it shows is what they print.

#![expect(clippy::expect_used, reason = "a test panics where it cannot go on")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const README: &str = include_str!("../../../README.md");
const HEADING: &str = "## A tour in five minutes";

/// The blocks of a language in the tour, one after the other.
fn blocks(language: &str) -> String {
    let (_, tour) = README.split_once(HEADING).expect("the README has a tour");
    let tour = tour.split_once("\n## ").map_or(tour, |(tour, _)| tour);
    let opening = format!("```{language}\n");
    let blocks = tour.split(opening.as_str()).skip(1);
    blocks
        .map(|rest| rest.split_once("```").expect("a block is closed").0)
        .collect()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    listener.local_addr().expect("it has an address").port()
}

#[test]
fn the_tour_of_the_readme_does_what_it_shows() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let docket = Path::new(env!("CARGO_BIN_EXE_docket"));
    let programs = docket.parent().expect("it lies in a folder").display();
    let path = std::env::var("PATH").expect("there is a PATH");
    let address = format!("127.0.0.1:{}", free_port());
    let script = format!(
        "set -euo pipefail\ntrap 'kill %1 2>/dev/null || true' EXIT\n{}",
        blocks("sh")
    );
    let ran = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{path}"))
        .env("DOCKET_LISTEN", &address)
        .env("DOCKET_URL", format!("http://{address}"))
        .env_remove("DOCKET_DATABASE_URL")
        .env_remove("DOCKET_DATA")
        .output()
        .expect("bash can be started");
    let printed = String::from_utf8_lossy(&ran.stdout);
    let complaints = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "the tour failed:\n{printed}\n{complaints}");
    let mut rest = printed.lines();
    for shown in blocks("text").lines() {
        assert!(
            rest.any(|line| line == shown),
            "the tour shows {shown:?}, in this order, but printed:\n{printed}\n{complaints}"
        );
    }
}
