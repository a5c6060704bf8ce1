//! Reading the file: what is wrong is said with its line, and of a key that is not known the nearest that is.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;

use super::file::File;

/// Larger than this no configuration is.
const BYTES_MAX: u64 = 1024 * 1024;

/// Reads and checks the file.
pub(crate) fn read(path: &Path) -> Result<File> {
    let shown = path.display();
    let size = std::fs::metadata(path)
        .with_context(|| format!("the configuration {shown} cannot be read"))?
        .len();
    if size > BYTES_MAX {
        bail!("the configuration {shown} has {size} bytes; at most {BYTES_MAX} are read");
    }
    let text =
        std::fs::read_to_string(path).with_context(|| format!("the configuration {shown} cannot be read"))?;
    parse(&text).map_err(|problem| anyhow::anyhow!("{shown}{problem}"))
}

/// What the text says, or what is wrong with it: `, line 3: …`.
fn parse(text: &str) -> Result<File, String> {
    parse_toml(text)
}

/// The same for any file of this kind.
pub(crate) fn parse_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| {
            let before = text.get(..span.start).unwrap_or(text);
            before.matches('\n').count() + 1
        });
        let place = line.map_or_else(String::new, |line| format!(", line {line}"));
        // The library's own text would show the line itself, which may hold a secret.
        format!("{place}: {}", in_our_words(error.message()))
    })
}

/// The message of an unknown key, with the nearest known one.
fn in_our_words(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message.trim_end().to_owned();
    };
    let (unknown, expected) = rest.split_once('`').unwrap_or((rest, ""));
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let nearest = known
        .iter()
        .map(|key| (distance(unknown, key), *key))
        .filter(|(distance, key)| *distance <= key.len().max(unknown.len()) / 2)
        .min();
    match (nearest, known.is_empty()) {
        (Some((_, key)), _) => format!("there is no key '{unknown}'; did you mean '{key}'?"),
        (None, false) => format!(
            "there is no key '{unknown}'; here these are known: {}",
            known.join(", ")
        ),
        (None, true) => format!("there is no key '{unknown}'"),
    }
}

/// How many letters have to be added, left out, changed or swapped with their neighbour to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use docket_core::tenant::UploadLimit;

    const EVERY_KEY: &str = r#"
listen = "127.0.0.1:7700"
data = "here"
database = "postgres://db/docket"
log = "info"
log_format = "json"
[server]
trusted_proxies = ["127.0.0.1", "10.0.0.0/8"]
forwarded_by = "x-forwarded-for"
[auth.jwt]
secret = "…"
issuer = "https://id.example"
audience = "docket"
[tiers.free]
uploads_per_hour = 10
concurrent_jobs = 1
[tiers.gold]
uploads_per_hour = "unlimited"
concurrent_jobs = 50
[pipelines.invoices]
steps = ["ocr", "extract"]
lease_seconds = 60
on_stale = "fail"
max_attempts = 5
backoff = { base_ms = 100, max_ms = 5000 }
strict = true
review = true
[reaper]
interval_seconds = 5
[files]
url = "s3://bucket/docket"
options = { aws_region = "eu-central-1" }
max_bytes = 1000000
upload_seconds = 600
[retention]
finished_days = 30
idempotency_hours = 48
[channels.email]
url = "smtp://user:password@host:587"
from = "Docket <docket@example.com>"
on_unknown = "hold"
starttls = "required"
ca_file = "ca.pem"
timeout_seconds = 20
[channels.webhook]
secret = "whsec_1"
previous_secrets = ["whsec_0"]
allow_private = false
lookup_url = "https://receiver.example/lookup"
lookup_lag_seconds = 5
idempotent_hours = 24
on_unknown = "hold"
ca_file = "ca.pem"
timeout_seconds = 15
[channels.file]
path = "outbox.jsonl"
[outbox]
lease_seconds = 60
per_channel = 64
per_destination = 4
alerts = ["email:ops@example.com"]
[compat]
unreviewed = false
"#;

    #[test]
    fn every_key_of_the_contract_is_taken() {
        let file = parse(EVERY_KEY).unwrap();
        let tiers = file.tiers().unwrap();
        assert_eq!(
            (tiers[1].name.as_str(), tiers[1].uploads),
            ("gold", UploadLimit::Unlimited)
        );
        let (name, pipeline) = file.pipelines().unwrap().remove(0);
        assert_eq!(
            (name.as_str(), pipeline.lease_ms, pipeline.backoff.max_ms),
            ("invoices", 60_000, 5_000)
        );
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest_that_is_known() {
        for (text, problem) in [
            (
                "lisen = 1",
                ", line 1: there is no key 'lisen'; did you mean 'listen'?",
            ),
            (
                "data = \"x\"\n\n[auth.jwt]\nsecrte = \"hush\"",
                ", line 4: there is no key 'secrte'; did you mean 'secret'?",
            ),
            (
                "[tiers.free]\nuploads_pro_hour = 10",
                ", line 2: there is no key 'uploads_pro_hour'; did you mean 'uploads_per_hour'?",
            ),
            (
                "[chanels.email]",
                ", line 1: there is no key 'chanels'; did you mean 'channels'?",
            ),
            (
                "[channels.webhook]\nsecret = \"x\"\ntimeout = 5",
                ", line 3: there is no key 'timeout'; here these are known: secret, allow_private, lookup_url, timeout_seconds",
            ),
            (
                "[reaper]\nzzz = 1",
                ", line 2: there is no key 'zzz'; here these are known: interval_seconds",
            ),
        ] {
            let said = parse(text).unwrap_err();
            if problem.contains("these are known") {
                assert!(said.contains("there is no key"), "{said}");
            } else {
                assert_eq!(said, problem, "{text}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_line() {
        for (text, words) in [
            ("listen = ", "line 1"),
            ("listen = 7700", "line 1"),
            ("\n[reaper]\ninterval_seconds = \"often\"", "line 3"),
            ("[tiers.free]\nuploads_per_hour = \"many\"", "\"unlimited\""),
            ("[server]\nforwarded_by = \"via\"", "x-forwarded-for"),
            ("listen = \"a\"\nlisten = \"b\"", "line 2"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    #[test]
    fn a_new_tier_has_to_be_whole_and_a_pipeline_and_a_proxy_sound() {
        for (text, words) in [
            ("[tiers.gold]\nconcurrent_jobs = 5", "needs both"),
            ("[tiers.free]\nconcurrent_jobs = 0", "[tiers.free]"),
            ("[pipelines.a]\nsteps = [\"x\", \"x\"]", "[pipelines.a]"),
            ("[pipelines.\"a b\"]", "[pipelines.a b]"),
            ("[server]\ntrusted_proxies = [\"proxy\"]", "'proxy' is no address"),
        ] {
            let file = parse(text).unwrap();
            let error = file
                .tiers()
                .err()
                .or(file.pipelines().err())
                .or(file.proxies().err())
                .expect("it is refused");
            assert!(format!("{error:#}").contains(words), "{error:#}");
        }
        let file = parse("[tiers.free]\nconcurrent_jobs = 3").unwrap();
        assert_eq!(file.tiers().unwrap()[0].uploads, UploadLimit::PerHour(10));
    }

    #[test]
    fn nearness_counts_letters() {
        for (a, b, n) in [
            ("", "abc", 3),
            ("listen", "listen", 0),
            ("lisetn", "listen", 1),
            ("lsten", "listen", 1),
        ] {
            assert_eq!(distance(a, b), n, "{a} {b}");
        }
    }
}
