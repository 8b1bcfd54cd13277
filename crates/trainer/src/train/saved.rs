//! A *saved run* is a file from which training goes on exactly, and what has been measured so far.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::trainer::TrainerState;

/// Changes whenever the fields below do, so that an old file is not misread.
const VERSION: u32 = 1;

/// What was measured along the way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Time spent in training, over all its parts.
    pub seconds: f64,
    pub points: Vec<Point>,
}

/// A measurement between two steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done.
    pub step: u64,
    /// Tokens trained on.
    pub tokens: u64,
    /// Mean loss in nats over the steps since the point before.
    pub loss: f64,
    /// Loss in nats on stories that are never trained on.
    pub held_out_loss: f64,
}

#[derive(Serialize, Deserialize)]
pub struct SavedRun {
    version: u32,
    pub state: TrainerState,
    pub history: History,
}

impl SavedRun {
    pub fn new(state: TrainerState, history: History) -> Self {
        Self { version: VERSION, state, history }
    }

    /// The run in a file, or none if there is no such file.
    pub fn read(path: &Path) -> Result<Option<Self>, TrainError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TrainError::File { path: path.to_path_buf(), error }),
        };
        // The version comes first, and what follows it can only be read if it is known.
        match postcard::take_from_bytes::<u32>(&bytes) {
            Ok((VERSION, _)) => postcard::from_bytes(&bytes).map(Some).map_err(|_| TrainError::Damaged),
            _ => Err(TrainError::Damaged),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), TrainError> {
        let bytes = postcard::to_stdvec(self).expect("a run is made of numbers");
        write_whole(path, &bytes)
    }
}

/// Writes a file so that at any moment, whatever happens, either the old one or the new one is there as a whole.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let mut name = path.file_name().expect("a path to a file").to_os_string();
    name.push(".new");
    let new: PathBuf = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| TrainError::File { path: path.to_path_buf(), error })
}
