//! What `make.py` makes, once for all tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// The moment, in seconds, at which the clock of a new world stands.
const NOW: &str = "1790000000";

/// Everything that was made.
pub(crate) fn made() -> &'static Value {
    static MADE: OnceLock<Value> = OnceLock::new();
    MADE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jwt/make.py");
        let output = Command::new(python())
            .arg(script)
            .arg(NOW)
            .output()
            .expect("python runs");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "make.py failed:\n{complaints}");
        serde_json::from_slice(&output.stdout).expect("make.py answers with JSON")
    })
}

/// One text of it.
pub(crate) fn text(path: &str) -> String {
    let value = made().pointer(path).and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("make.py makes {path}")).to_owned()
}

/// A python with PyJWT; `make test` has it ready, and it is made here where a test is run by itself.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let ready = Command::new(root.join("scripts/setup")).arg("pyjwt").status();
    assert!(
        ready.expect("scripts/setup runs").success(),
        "scripts/setup pyjwt failed"
    );
    target.join("python-jwt/bin/python")
}
