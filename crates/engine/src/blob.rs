//! Where files go: a folder, or an S3 bucket by configuration.

use std::path::PathBuf;
use std::sync::Arc;

use docket_store::{Error, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt as _};

/// The size of the pieces in which a file goes to a folder, which also is the largest that is written in one go.
const FOLDER_PIECE: usize = 1 << 20;
/// The same for a bucket. S3 takes no less than 5 MiB for a piece, and at most 10,000 pieces.
const BUCKET_PIECE: usize = 8 << 20;
/// How many pieces of one file are under way at once; one more is being filled. So much memory an upload takes, however
/// large the file.
const PIECES_MAX: usize = 2;

/// Which blob store to use.
#[derive(Clone, Debug)]
pub enum BlobConfig {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A store by URL (`s3://bucket/prefix`) with its options (`aws_access_key_id` and its like).
    Url {
        /// Where.
        url: String,
        /// How, as the `object_store` crate names them.
        options: Vec<(String, String)>,
    },
}

/// An open blob store.
#[derive(Clone, Debug)]
pub(crate) struct Blobs {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// For a folder.
    folder: Option<PathBuf>,
}

impl Blobs {
    pub(crate) fn open(config: &BlobConfig) -> Result<Self> {
        match config {
            BlobConfig::Folder(folder) => {
                let shown = folder.display();
                std::fs::create_dir_all(folder).map_err(|error| {
                    Error::Open(format!("the folder for files {shown} cannot be made: {error}"))
                })?;
                let store = LocalFileSystem::new_with_prefix(folder).map_err(|error| {
                    Error::Open(format!("the folder for files {shown} cannot be used: {error}"))
                })?;
                Ok(Self {
                    store: Arc::new(store.with_automatic_cleanup(true).with_fsync(true)),
                    prefix: Path::default(),
                    folder: Some(folder.clone()),
                })
            }
            BlobConfig::Url { url, options } => {
                let parsed = url
                    .parse()
                    .map_err(|error| Error::Open(format!("the URL for files cannot be read: {error}")))?;
                let (store, prefix) = object_store::parse_url_opts(&parsed, options.iter().cloned())
                    .map_err(|error| Error::Open(format!("the store for files cannot be used: {error}")))?;
                Ok(Self {
                    store: Arc::from(store),
                    prefix,
                    folder: None,
                })
            }
        }
    }

    fn path(&self, key: &str) -> Path {
        Path::from_iter(self.prefix.parts().chain(Path::from(key).parts()))
    }

    /// Begins to write a blob.
    pub(crate) fn write(&self, key: &str) -> object_store::buffered::BufWriter {
        let piece = match self.folder {
            Some(_) => FOLDER_PIECE,
            None => BUCKET_PIECE,
        };
        object_store::buffered::BufWriter::with_capacity(Arc::clone(&self.store), self.path(key), piece)
            .with_max_concurrency(PIECES_MAX)
    }

    /// Reads a blob as a stream.
    pub(crate) async fn read(&self, key: &str) -> Result<object_store::GetResult> {
        self.store.get(&self.path(key)).await.map_err(not_read)
    }

    /// Reads a part of a blob as a stream. A part that lies outside of it is refused.
    pub(crate) async fn read_part(
        &self,
        key: &str,
        part: Option<object_store::GetRange>,
    ) -> Result<object_store::GetResult> {
        let options = object_store::GetOptions {
            range: part,
            ..object_store::GetOptions::default()
        };
        self.store
            .get_opts(&self.path(key), options)
            .await
            .map_err(not_read)
    }

    /// Deletes a blob; one that is not there is as good as deleted.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        match self.store.delete(&self.path(key)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => self.delete_unfinished(key).await,
            Err(error) => Err(failed(error)),
        }
    }

    /// Deletes what a process that was killed in mid-write has left. In a folder a blob is written beside its place, as `key#1`
    /// (`#2` where that was taken), and the store shows no such file. A bucket drops unfinished parts by its own rules.
    async fn delete_unfinished(&self, key: &str) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        for number in 1.. {
            match tokio::fs::remove_file(folder.join(format!("{key}#{number}"))).await {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }
}

/// What the store for files says when it cannot be reached or takes nothing: it may be back soon.
pub(crate) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Files(Box::new(error))
}

/// The same for a blob that an item has. One that is gone does not come back by itself.
fn not_read(error: object_store::Error) -> Error {
    match error {
        object_store::Error::NotFound { .. } => {
            Error::Open(format!("the bytes of an item are gone: {error}"))
        }
        other => failed(other),
    }
}
