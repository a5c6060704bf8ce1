//! What a provider did, on disk: it survives the provider's own death.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One message that was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Effect {
    /// Its `webhook-id`.
    pub token: String,
    /// The provider's own id for it.
    pub id: String,
    /// When it was taken.
    pub at_ms: i64,
    /// The request's headers, their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The request's body.
    pub body: String,
}

/// All effects in a ledger, in their order.
pub fn read_ledger(path: &Path) -> Vec<Effect> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        text => text.expect("the ledger can be read"),
    };
    // A line without its end belongs to a provider that was killed over it; it has answered nobody.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let effect =
        |line: &str| -> Effect { serde_json::from_str(line).expect("a line of the ledger is an effect") };
    whole.lines().map(effect).collect()
}

/// The ledger of a running provider.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    effects: Vec<Effect>,
}

impl Ledger {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let effects = read_ledger(path);
        let text: String = effects.iter().map(line).collect();
        std::fs::write(path, text)?;
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Self { file, effects })
    }

    /// The first effect of a token.
    pub(super) fn first(&self, token: &str) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.token == token)
    }

    /// Adds an effect; it is on the disk when this returns. Its id is the provider's.
    pub(super) fn add(&mut self, mut effect: Effect) -> std::io::Result<String> {
        effect.id = format!("msg-{}", self.effects.len() + 1);
        self.file.write_all(line(&effect).as_bytes())?;
        self.file.sync_data()?;
        let id = effect.id.clone();
        self.effects.push(effect);
        Ok(id)
    }
}

fn line(effect: &Effect) -> String {
    let json = serde_json::to_string(effect).expect("an effect is JSON");
    format!("{json}\n")
}
