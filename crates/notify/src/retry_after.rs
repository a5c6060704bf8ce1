//! `Retry-After`: seconds, or a date (RFC 9110).

use std::time::{Duration, UNIX_EPOCH};

use docket_core::Timestamp;

/// Nobody is believed who wants to be left alone for longer.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long to wait by this header; none where it makes no sense. A date that has passed is no wait at all.
pub(crate) fn parse(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    let wait = if !header.is_empty() && header.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than fit are a long time too.
        Duration::from_secs(header.parse().unwrap_or(u64::MAX))
    } else {
        let at = httpdate::parse_http_date(header).ok()?;
        let at_ms = at.duration_since(UNIX_EPOCH).ok()?.as_millis();
        let wait_ms = at_ms.saturating_sub(u128::try_from(now.ms()).unwrap_or(0));
        Duration::from_millis(u64::try_from(wait_ms).unwrap_or(u64::MAX))
    };
    Some(wait.min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = Timestamp::from_ms(784_111_777_000);
        for (header, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30)),
            ("Sunday, 06-Nov-94 08:49:38 GMT", Some(1)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Fri, 06 Nov 2093 08:49:37 GMT", Some(86_400)),
            ("", None),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
        ] {
            assert_eq!(parse(header, now), seconds.map(Duration::from_secs), "{header:?}");
        }
    }
}
