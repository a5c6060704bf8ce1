//! Programs of others that `scripts/setup channels` installs; `make test` has them ready, and they are made here where a test is
//! run by itself.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder that everything is installed into.
fn target() -> &'static Path {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    TARGET.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let ready = Command::new(root.join("scripts/setup")).arg("channels").status();
        assert!(
            ready.expect("scripts/setup runs").success(),
            "scripts/setup channels failed"
        );
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
    })
}

pub(crate) fn python() -> PathBuf {
    target().join("python-channels/bin/python")
}

/// Where npm has put its modules.
pub(crate) fn node_modules() -> PathBuf {
    let folder = target().join("node-channels");
    folder.canonicalize().expect("npm has installed something")
}

/// A file beside this one.
pub(crate) fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/channels")
        .join(name)
}

/// What a program says to this input. It has to succeed.
pub(crate) fn output(command: &mut Command, input: &[u8]) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("its input is piped");
    stdin.write_all(input).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{command:?} failed");
    String::from_utf8(output.stdout).expect("it answers in UTF-8")
}
