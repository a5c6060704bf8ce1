//! Where a command works: a folder of its own with the item's file, and the job as JSON. Gone when the command has ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use docket_client::worker::JobHandle;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// The longest name that a downloaded file is given.
const NAME_MAX: usize = 100;

/// A folder for one job.
#[derive(Debug)]
pub(crate) struct Workplace {
    folder: TempDir,
    content: Option<PathBuf>,
}

impl Workplace {
    /// Makes the folder and fetches the file, where the item has one.
    pub(crate) async fn make(job: &JobHandle, root: &Path) -> Result<Self> {
        let made = tempfile::Builder::new().prefix("job-").tempdir_in(root);
        let folder = made.context("no folder can be made for the job")?;
        let path = folder.path().join(plain_name(job.claimed().filename.as_deref()));
        let size = job
            .download(&path)
            .await
            .context("the item's file could not be fetched")?;
        Ok(Self {
            content: size.map(|_| path),
            folder,
        })
    }

    /// The job as the command gets it: what was claimed, with the file's path. The token stays here: the worker speaks for the
    /// command.
    pub(crate) fn document(&self, job: &JobHandle) -> Result<Value> {
        let mut document = match serde_json::to_value(job.claimed())? {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        document.remove("leaseToken");
        document.remove("contentUrl");
        document.insert("contentPath".to_owned(), json!(self.content));
        Ok(Value::Object(document))
    }

    /// The variables that tell of one job.
    pub(crate) fn variables(&self, job: &JobHandle) -> Vec<(&'static str, OsString)> {
        let claimed = job.claimed();
        let mut variables = vec![
            ("DOCKET_JOB", claimed.job_id.to_string().into()),
            ("DOCKET_ITEM", claimed.item_id.to_string().into()),
            ("DOCKET_TENANT", claimed.tenant_id.clone().into()),
            ("DOCKET_COLLECTION", claimed.collection_id.clone().into()),
            ("DOCKET_ATTEMPT", claimed.attempt.to_string().into()),
            ("DOCKET_FOLDER", self.folder.path().into()),
        ];
        if let Some(path) = &self.content {
            variables.push(("DOCKET_CONTENT", path.into()));
        }
        variables
    }
}

/// A name for a file that is nothing but a name: no path, no option, nothing hidden. Its ending is kept, as many programs go by it.
fn plain_name(filename: Option<&str>) -> String {
    let base = filename
        .unwrap_or_default()
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = base.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let name = name.trim_start_matches(['.', '-', '_']);
    let cut = &name[name.len().saturating_sub(NAME_MAX)..];
    match cut.trim_start_matches(['.', '-']) {
        "" => "content".to_owned(),
        plain => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_given_a_plain_name() {
        for (given, made) in [
            (None, "content"),
            (Some("invoice.pdf"), "invoice.pdf"),
            (Some("../../etc/passwd"), "passwd"),
            (Some("C:\\bills\\märz 5.pdf"), "m_rz_5.pdf"),
            (Some("-rf"), "rf"),
            (Some(".bashrc"), "bashrc"),
            (Some(".."), "content"),
            (Some("$(reboot)"), "reboot_"),
        ] {
            assert_eq!(plain_name(given).trim_start_matches('_'), made, "{given:?}");
        }
        assert!(plain_name(Some(&format!("{}.pdf", "x".repeat(500)))).ends_with("x.pdf"));
    }
}
