//! A message as a mail: text and HTML, all of it ASCII on the wire, the same bytes each time.

use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use docket_core::Timestamp;
use docket_core::content::Digest;
use docket_core::notify::{DeliveryToken, EmailAddress, Message};
use docket_core::refusal::{Refusal, Refused};
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart, SinglePart};

use super::config::Sender;

/// The Message-ID: the same for every attempt at a delivery, so that a receiving server that compares them sees a repeat.
pub(super) fn message_id(from: &Sender, token: &DeliveryToken) -> String {
    format!("<{token}@{}>", from.address.domain())
}

/// The whole mail.
pub(super) fn mail(
    from: &Sender,
    message: &Message,
    to: &EmailAddress,
    token: &DeliveryToken,
) -> Refused<Vec<u8>> {
    let text = message.body().replace("\r\n", "\n").replace('\r', "\n");
    let html = html(message.subject(), &text);
    // Random by default; a digest of the token is in no text but by intent.
    let boundary = Digest::of(token.as_str().as_bytes()).to_string();
    let parts = MultiPart::alternative()
        .boundary(&boundary[..40])
        .singlepart(SinglePart::plain(text))
        .singlepart(SinglePart::html(html));
    lettre::Message::builder()
        .from(mailbox(from.name.clone(), &from.address)?)
        .to(mailbox(None, to)?)
        .subject(message.subject())
        .date(UNIX_EPOCH + since_epoch(message.created_at()))
        .message_id(Some(message_id(from, token)))
        // Asks answering machines to keep quiet (RFC 3834).
        .raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".to_owned(),
        ))
        .multipart(parts)
        .map(|mail| mail.formatted())
        .map_err(|error| Refusal::invalid("recipient", error.to_string()))
}

fn mailbox(name: Option<String>, address: &EmailAddress) -> Refused<Mailbox> {
    let address = super::dialogue::address(address)?;
    // A line break would end the header; the library does not write such a name at all.
    let name = name.map(|name| name.replace(char::is_control, " "));
    Ok(Mailbox::new(name, address))
}

/// A mail's date has seconds, from 1970 to 9999; what lies outside is moved to the ends.
fn since_epoch(at: Timestamp) -> Duration {
    const LAST_SECOND: u64 = 253_402_300_799;
    let seconds = u64::try_from(at.ms() / 1000).unwrap_or(0);
    Duration::from_secs(seconds.min(LAST_SECOND))
}

/// Plain text as a page: paragraphs where lines are empty, breaks elsewhere, and nothing of the text as markup.
fn html(title: &str, text: &str) -> String {
    let mut page = String::from("<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>");
    escape(&mut page, title);
    page.push_str("</title></head>\n<body>\n");
    for paragraph in text
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
    {
        page.push_str("<p>");
        for (number, line) in paragraph.trim_matches('\n').lines().enumerate() {
            if number > 0 {
                page.push_str("<br>\n");
            }
            escape(&mut page, line);
        }
        page.push_str("</p>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn escape(page: &mut String, text: &str) {
    for c in text.chars() {
        if matches!(c, '&' | '<' | '>' | '"' | '\'') {
            // Writing to a string cannot fail.
            write!(page, "&#{};", u32::from(c)).unwrap_or_default();
        } else {
            page.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender() -> Sender {
        Sender {
            name: Some("Dökét, \"Inc.\"\r\nBcc: eve@example.com".to_owned()),
            address: EmailAddress::parse("docket@example.com").unwrap(),
        }
    }

    fn rendered(subject: &str, body: &str) -> String {
        let message = Message::new("cl-7", 3, subject, body, Timestamp::from_ms(1_790_000_000_999)).unwrap();
        let to = EmailAddress::parse("ann@example.org").unwrap();
        let token = DeliveryToken::new("dlv_1").unwrap();
        let bytes = mail(&sender(), &message, &to, &token).unwrap();
        assert_eq!(bytes, mail(&sender(), &message, &to, &token).unwrap());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_mail_is_ascii_and_no_text_breaks_out_of_its_header() {
        let subject = format!("Änderung 7 ✓ {}", "sehr lang ".repeat(30));
        let mail = rendered(&subject, "Grüße\r\n.\r\nBcc: x\rMAIL FROM:<x>\n.\n");
        assert!(mail.is_ascii());
        let (headers, _) = mail.split_once("\r\n\r\n").unwrap();
        let names: Vec<&str> = headers
            .lines()
            .filter(|line| !line.starts_with([' ', '\t']))
            .map(|line| line.split(':').next().unwrap())
            .collect();
        assert!(!names.contains(&"Bcc"), "{headers}");
        assert!(headers.contains("Message-ID: <dlv_1@example.com>"), "{headers}");
        assert!(headers.contains("Date: Mon, 21 Sep 2026 14:13:20"), "{headers}");
        // Every line break is CR LF, and no line is too long for SMTP.
        assert!(!mail.replace("\r\n", "").contains(['\r', '\n']));
        assert!(mail.lines().all(|line| line.len() <= 998));
    }

    #[test]
    fn html_has_the_text_and_none_of_its_markup() {
        assert_eq!(
            html("<b>", "one & 'two'\nthree\n\n\n<script>alert(\"1\")</script>\n"),
            "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>&#60;b&#62;</title></head>\n<body>\n\
             <p>one &#38; &#39;two&#39;<br>\nthree</p>\n\
             <p>&#60;script&#62;alert(&#34;1&#34;)&#60;/script&#62;</p>\n</body></html>\n"
        );
    }
}
