//! How the server is configured: flags win over the environment, the environment over `docket.toml`.

mod channels;
mod file;
mod read;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use docket_access::{JwtConfig, JwtKey};
use docket_engine::BlobConfig;

pub(crate) use file::File;
pub(crate) use read::parse_toml;

use crate::target::{self, Target};

const LISTEN: &str = "127.0.0.1:7700";
const FILE: &str = "docket.toml";

/// The flags that say how to serve.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ConfigArgs {
    /// The configuration [env: DOCKET_CONFIG] [default: docket.toml, where there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one [env: DOCKET_LISTEN] [default: 127.0.0.1:7700]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The data folder: the SQLite database, and files [env: DOCKET_DATA] [default: ./docket-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A PostgreSQL database instead, as postgres://user@host:5432/name [env: DOCKET_DATABASE_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<String>,
}

/// What the server is to do.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: String,
    pub(crate) target: Target,
    pub(crate) blobs: BlobConfig,
    pub(crate) jwt: Option<JwtConfig>,
    pub(crate) channels: docket_notify::Channels,
    pub(crate) file: File,
}

/// The environment, or a stand-in.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Config {
    /// What flags, environment and file say together.
    pub(crate) fn load(args: &ConfigArgs, variables: Variables<'_>) -> Result<Self> {
        let (file, folder) = load_file(args, variables)?;
        let listen = args
            .listen
            .clone()
            .or_else(|| variables("DOCKET_LISTEN"))
            .or_else(|| file.listen.clone())
            .unwrap_or_else(|| LISTEN.to_owned());
        check_address(&listen)?;
        let data = args
            .data
            .clone()
            .or_else(|| variables("DOCKET_DATA").map(PathBuf::from))
            .or_else(|| file.data.as_ref().map(|data| folder.join(data)))
            .unwrap_or_else(|| PathBuf::from(target::DATA));
        let database = match (&args.database, &args.data) {
            (Some(url), _) => Some(url.clone()),
            // A folder by flag means the database in it, whatever else is set.
            (None, Some(_)) => None,
            (None, None) => variables("DOCKET_DATABASE_URL").or_else(|| file.database.clone()),
        };
        let place = channels::Place {
            folder: &folder,
            data: &data,
            alone: database.is_none(),
        };
        let channels = file.channels.open(place)?;
        let target = match database {
            None => Target::Sqlite(data.clone()),
            Some(url) => Target::postgres(url, data.clone())?,
        };
        let blobs = match &file.files.url {
            None => BlobConfig::Folder(data),
            Some(url) => BlobConfig::Url {
                url: url.clone(),
                options: file.files.options.clone().into_iter().collect(),
            },
        };
        let jwt = file
            .auth
            .jwt
            .as_ref()
            .map(|jwt| jwt_config(jwt, &folder))
            .transpose()?;
        Ok(Self {
            listen,
            target,
            blobs,
            jwt,
            channels,
            file,
        })
    }
}

/// The file, and the folder that paths in it start from. Where none was named, none is needed.
pub(crate) fn load_file(args: &ConfigArgs, variables: Variables<'_>) -> Result<(File, PathBuf)> {
    let named = args
        .config
        .clone()
        .or_else(|| variables("DOCKET_CONFIG").map(PathBuf::from));
    let path = match named {
        Some(path) => path,
        None if Path::new(FILE).exists() => PathBuf::from(FILE),
        None => return Ok((File::default(), PathBuf::new())),
    };
    let file = read::read(&path)?;
    let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
    // Wrong tiers, pipelines and proxies are found before anything is opened.
    let shown = path.display();
    file.tiers().with_context(|| format!("{shown} is wrong"))?;
    file.pipelines().with_context(|| format!("{shown} is wrong"))?;
    file.proxies().with_context(|| format!("{shown} is wrong"))?;
    Ok((file, folder))
}

/// Refuses what cannot be an address before a socket does, in clearer words.
fn check_address(listen: &str) -> Result<()> {
    let port = listen.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    if port.is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
        return Ok(());
    }
    bail!(
        "'{listen}' is no address to listen on; it looks like 127.0.0.1:7700, or 0.0.0.0:7700 for all interfaces"
    )
}

fn jwt_config(section: &file::JwtSection, folder: &Path) -> Result<JwtConfig> {
    let key = match (&section.secret, &section.public_key_file, &section.jwks_url) {
        (Some(secret), None, None) => JwtKey::Secret(secret.clone()),
        (None, Some(path), None) => {
            let path = folder.join(path);
            let pem = std::fs::read(&path)
                .with_context(|| format!("auth.jwt.public_key_file {} cannot be read", path.display()))?;
            JwtKey::PublicPem(pem)
        }
        (None, None, Some(url)) => JwtKey::JwksUrl(url.clone()),
        _ => bail!("[auth.jwt] needs exactly one of secret, public_key_file and jwks_url"),
    };
    Ok(JwtConfig {
        key,
        issuer: section.issuer.clone(),
        audience: section.audience.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Variables<'static> = &|_| None;

    fn args(folder: &Path, text: &str) -> ConfigArgs {
        let path = folder.join("docket.toml");
        std::fs::write(&path, text).unwrap();
        ConfigArgs {
            config: Some(path),
            ..ConfigArgs::default()
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_the_environment_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut args = args(folder.path(), "listen = \"127.0.0.1:1\"\ndata = \"below\"");
        let config = Config::load(&args, NOTHING).unwrap();
        assert_eq!(config.listen, "127.0.0.1:1");
        assert!(matches!(&config.target, Target::Sqlite(data) if *data == folder.path().join("below")));
        let environment: Variables<'_> = &|name| match name {
            "DOCKET_LISTEN" => Some("127.0.0.1:2".to_owned()),
            "DOCKET_DATABASE_URL" => Some("postgres://db/docket".to_owned()),
            _ => None,
        };
        let config = Config::load(&args, environment).unwrap();
        assert_eq!(config.listen, "127.0.0.1:2");
        assert!(matches!(config.target, Target::Postgres { .. }));
        args.listen = Some("127.0.0.1:3".to_owned());
        args.data = Some("here".into());
        let config = Config::load(&args, environment).unwrap();
        assert_eq!(config.listen, "127.0.0.1:3");
        assert!(matches!(config.target, Target::Sqlite(data) if data.as_os_str() == "here"));
    }

    #[test]
    fn a_named_file_has_to_be_there() {
        let args = ConfigArgs {
            config: Some("/nowhere/docket.toml".into()),
            ..ConfigArgs::default()
        };
        let error = Config::load(&args, NOTHING).unwrap_err();
        assert!(
            format!("{error:#}").contains("/nowhere/docket.toml cannot be read"),
            "{error:#}"
        );
    }

    #[test]
    fn addresses_are_checked_before_anything_is_opened() {
        for (listen, good) in [
            ("127.0.0.1:7700", true),
            ("localhost:0", true),
            ("[::1]:80", true),
            ("7700", false),
            (":7700", false),
            ("127.0.0.1", false),
            ("127.0.0.1:99999", false),
            ("http://127.0.0.1", false),
        ] {
            assert_eq!(check_address(listen).is_ok(), good, "{listen}");
        }
    }

    #[test]
    fn jwts_have_one_key() {
        let folder = tempfile::tempdir().unwrap();
        for (text, good) in [
            ("[auth.jwt]\nsecret = \"x\"", true),
            ("[auth.jwt]", false),
            (
                "[auth.jwt]\nsecret = \"x\"\njwks_url = \"https://id.example\"",
                false,
            ),
            ("[auth.jwt]\npublic_key_file = \"none.pem\"", false),
        ] {
            assert_eq!(
                Config::load(&args(folder.path(), text), NOTHING).is_ok(),
                good,
                "{text}"
            );
        }
    }
}
