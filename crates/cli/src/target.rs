//! Which database a command means, and what may be said of it: a URL is shown without its password, always.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use docket_engine::{BlobConfig, Engine, EngineConfig, PostgresConfig, StoreConfig};

/// The data folder where nothing else is said.
pub(crate) const DATA: &str = "./docket-data";
const DATA_VARIABLE: &str = "DOCKET_DATA";
const DATABASE_VARIABLE: &str = "DOCKET_DATABASE_URL";

/// The flags that name a database. Flags win over the environment.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TargetArgs {
    /// The data folder with its SQLite database [env: DOCKET_DATA] [default: ./docket-data]
    #[arg(long, value_name = "DIR", conflicts_with = "database")]
    pub(crate) data: Option<PathBuf>,
    /// A PostgreSQL database, as postgres://user@host:5432/name [env: DOCKET_DATABASE_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
}

/// A database that was named.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Sqlite(PathBuf),
    Postgres { url: String, files: PathBuf },
}

impl TargetArgs {
    /// Whether a flag names a database; the environment alone does not count.
    pub(crate) const fn is_given(&self) -> bool {
        self.data.is_some() || self.database.is_some()
    }

    /// The database that the flags name, or else the environment, or else the usual folder.
    pub(crate) fn resolve(&self) -> Result<Target> {
        let folder = || variable(DATA_VARIABLE).map_or_else(|| PathBuf::from(DATA), PathBuf::from);
        if let Some(data) = &self.data {
            return Ok(Target::Sqlite(data.clone()));
        }
        match self.database.clone().or_else(|| variable(DATABASE_VARIABLE)) {
            None => Ok(Target::Sqlite(folder())),
            Some(url) => Target::postgres(url, folder()),
        }
    }
}

pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Target {
    /// A PostgreSQL database, its files in this folder.
    pub(crate) fn postgres(url: String, files: PathBuf) -> Result<Self> {
        check_url(&url)?;
        Ok(Self::Postgres { url, files })
    }

    /// The database in words, without a password.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Sqlite(folder) => format!("SQLite in {}", folder.display()),
            Self::Postgres { url, .. } => format!("PostgreSQL at {}", without_password(url)),
        }
    }

    /// Refuses a folder without a database: a command that only looks must not make one.
    pub(crate) fn check_exists(&self) -> Result<()> {
        let Self::Sqlite(folder) = self else { return Ok(()) };
        if !folder.join("docket.db").is_file() {
            let shown = folder.display();
            bail!(
                "there is no Docket database in {shown}; name its folder with --data, or PostgreSQL with --database"
            );
        }
        Ok(())
    }

    /// Opens the engine, files included.
    pub(crate) async fn open(&self) -> Result<Engine> {
        let files = match self {
            Self::Sqlite(folder) => folder.clone(),
            Self::Postgres { files, .. } => files.clone(),
        };
        self.open_with(BlobConfig::Folder(files)).await
    }

    /// Opens the engine for a command that touches no file, and so makes no folder for them.
    pub(crate) async fn open_without_files(&self) -> Result<Engine> {
        let nowhere = BlobConfig::Url {
            url: "memory:///".to_owned(),
            options: Vec::new(),
        };
        self.open_with(nowhere).await
    }

    /// The store to open.
    pub(crate) fn store(&self) -> StoreConfig {
        match self {
            Self::Sqlite(folder) => StoreConfig::Sqlite(folder.clone()),
            Self::Postgres { url, .. } => StoreConfig::Postgres(PostgresConfig::new(url)),
        }
    }

    async fn open_with(&self, blobs: BlobConfig) -> Result<Engine> {
        let opened = Engine::open(EngineConfig::new(self.store(), blobs)).await;
        opened.with_context(|| format!("the database cannot be opened: {}", self.describe()))
    }
}

/// Refuses what is no PostgreSQL URL before the driver sees it: the driver takes other notations too, and says no more of a
/// text that it cannot read than that it cannot.
pub(crate) fn check_url(url: &str) -> Result<()> {
    if ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        return Ok(());
    }
    let shown = without_password(url);
    bail!("'{shown}' is no PostgreSQL URL; it looks like postgres://user@host:5432/name");
}

/// A text with the password of every URL in it left out, and that of a `password=` too.
pub(crate) fn without_password(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        shown.push_str(&word_without_password(word));
    }
    shown
}

fn word_without_password(word: &str) -> String {
    let mut word = word.to_owned();
    if let Some(begin) = word.find("://").map(|at| at + 3) {
        // A password may itself hold an `@` or a `/`, so it reaches to the last `@` there is.
        if let (Some(end), Some(colon)) = (word.rfind('@'), word[begin..].find(':').map(|at| begin + at))
            && colon < end
        {
            word.replace_range(colon..end, "");
        }
    }
    if let Some(begin) = word.find("password=").map(|at| at + "password=".len()) {
        let end = word[begin..].find('&').map_or(word.len(), |at| begin + at);
        word.replace_range(begin..end, "***");
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            (
                "postgres://ann:secret@db:5432/docket",
                "postgres://ann@db:5432/docket",
            ),
            ("postgres://ann:se@c/ret@db/docket", "postgres://ann@db/docket"),
            ("postgres://ann@db/docket", "postgres://ann@db/docket"),
            ("postgres://db:5432/docket", "postgres://db:5432/docket"),
            (
                "postgres://db/docket?password=secret&user=ann",
                "postgres://db/docket?password=***&user=ann",
            ),
            ("mysql://ann:secret@db/x?a=b", "mysql://ann@db/x?a=b"),
            ("host=db password=secret", "host=db password=***"),
            (
                "it failed: postgres://a:secret@h/d is away",
                "it failed: postgres://a@h/d is away",
            ),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn another_kind_of_url_is_refused_without_its_password() {
        let problem = check_url("mysql://ann:secret@db/x?a=b").unwrap_err().to_string();
        assert!(problem.contains("postgres://user@host"), "{problem}");
        assert!(!problem.contains("secret"), "{problem}");
    }

    #[test]
    fn a_flag_for_the_folder_means_sqlite() {
        let args = TargetArgs {
            data: Some("here".into()),
            database: None,
        };
        assert!(matches!(args.resolve().unwrap(), Target::Sqlite(folder) if folder.as_os_str() == "here"));
    }
}
