//! A real mail server behind a proxy that breaks dialogues: nobody can ask it, and it takes everything it gets.

use std::collections::BTreeMap;

use docket_core::random::Random as _;
use docket_testkit::mail_proxy::{MailCut, MailProxy};
use docket_testkit::mail_server::{MailServer, Speech};
use docket_testkit::outbox_rows::{DeliveryRow, RowState};

use super::round::{Draw, OtherSide, TIMEOUT_SECONDS, say};

/// Where dialogues break, in turns. There are fewer than messages of a round, so that a round meets all of them.
const CUTS: [MailCut; 8] = [
    MailCut::SwallowAnswer,
    MailCut::Never,
    MailCut::WithholdAnswer,
    MailCut::Never,
    MailCut::Greeting,
    MailCut::Command("RCPT"),
    MailCut::Data(100),
    MailCut::Never,
];

/// A mail server and what is before it.
pub(super) struct Mail {
    server: MailServer,
    proxy: MailProxy,
}

impl Mail {
    pub(super) async fn start() -> Self {
        let server = MailServer::start(Speech::Plain, None).await;
        let proxy = MailProxy::before(server.port, MailCut::Never).await;
        Self { server, proxy }
    }
}

/// Whether what nobody can tell is sent again in this round, rather than held.
const fn resends(round: u64) -> bool {
    round.is_multiple_of(2)
}

/// The token in a mail's Message-ID.
fn token(mail: &[u8]) -> String {
    let text = String::from_utf8_lossy(mail);
    let mut headers = text.lines().take_while(|line| !line.is_empty());
    let id = headers.find_map(|line| line.strip_prefix("Message-ID: <"));
    let token = id.and_then(|id| id.split_once('@')).map(|(token, _)| token);
    token.expect("a mail has a Message-ID").to_owned()
}

impl OtherSide for Mail {
    fn settings(&self, round: u64) -> String {
        let on_unknown = if resends(round) { "resend" } else { "hold" };
        format!(
            "[channels.email]\nurl = \"smtp://localhost:{}\"\nfrom = \"docket@example.com\"\non_unknown = \"{on_unknown}\"\n\
             timeout_seconds = {TIMEOUT_SECONDS}\n",
            self.proxy.port
        )
    }

    fn recipient(&self, name: &str) -> String {
        format!("email:{name}@example.org")
    }

    async fn misbehave(&self, draw: &Draw) {
        let mut cuts = CUTS;
        for last in (1..cuts.len()).rev() {
            let other = draw.random.below(last as u64 + 1);
            cuts.swap(last, usize::try_from(other).expect("a small number"));
        }
        say(&format!("  {cuts:?}"));
        self.proxy.cut_at(&cuts);
    }

    async fn behave(&self) {
        self.proxy.cut_at(&[]);
    }

    fn effects(&self) -> BTreeMap<String, usize> {
        let mut effects = BTreeMap::new();
        for (_, mail) in self.server.mails() {
            *effects.entry(token(&mail)).or_default() += 1;
        }
        effects
    }

    fn effects_max(&self, repeats: usize) -> usize {
        1 + repeats
    }

    fn assert_of_round(&self, round: u64, rows: &[DeliveryRow], repeats: &BTreeMap<String, usize>) {
        // The dead server had at least one in hand, and nobody can tell.
        let repeated = rows.iter().any(|row| repeats.contains_key(&row.token));
        let held = rows.iter().any(|row| row.state == RowState::Held);
        assert_eq!(
            (repeated, held),
            (resends(round), !resends(round)),
            "by the policy"
        );
        assert!(self.proxy.swallowed() > 0, "answers were lost");
    }
}
