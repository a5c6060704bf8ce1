//! Programs of others that `scripts/setup channels` installs; `make test` has them ready, and they are made here where a test is
//! run by itself.

use std::path::{Path, PathBuf};
use std::process::Command;
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

/// The python that has them.
pub fn python() -> PathBuf {
    target().join("python-channels/bin/python")
}

/// Where npm has put its modules.
pub fn node_modules() -> PathBuf {
    let folder = target().join("node-channels");
    folder.canonicalize().expect("npm has installed something")
}
