//! The profile: what `tune` measured on this machine, kept in a file that later processes read.
//!
//! JSON, so that people can read it; versioned; written whole or not at all. It names the machine
//! it was measured on, since a home directory may be shared between several, and is believed only
//! there. A file that cannot be used changes nothing but [`ProfileReport`], which says why.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::Machine;

/// The form of the file. A change that an older reader would misread needs a new number.
const VERSION: u64 = 1;

/// Bytes of the longest file that is read: a profile has about one thousand.
const MOST_BYTES: u64 = 64 << 10;

/// Seconds from 1970 to the year 10000, which calendars do not have.
const END_OF_TIME: u64 = 253_402_300_800;

/// What is measured: the nanoseconds until a sleeping worker has begun and its end is known; then
/// bytes per nanosecond, read and copied, in each cache and in memory, by one thread and by all.
pub const NAMES: [&str; 17] = [
    "wake_ns",
    "read_l1_one",
    "read_l1_all",
    "read_l2_one",
    "read_l2_all",
    "read_llc_one",
    "read_llc_all",
    "read_memory_one",
    "read_memory_all",
    "copy_l1_one",
    "copy_l1_all",
    "copy_l2_one",
    "copy_l2_all",
    "copy_llc_one",
    "copy_llc_all",
    "copy_memory_one",
    "copy_memory_all",
];

/// What a wake may cost, in nanoseconds: from less than any system needs, to the time after which
/// a worker is not waited for.
const POSSIBLE_WAKE: std::ops::RangeInclusive<f64> = 100.0..=2e8;

/// What a bandwidth may be, in bytes per nanosecond: from a hundredth of the slowest memory to
/// ten times the caches of the largest server.
const POSSIBLE_BANDWIDTH: std::ops::RangeInclusive<f64> = 0.1..=1e6;

/// What was measured, by [`NAMES`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurements([f64; NAMES.len()]);

impl Measurements {
    /// Two decimals: nothing is measured better, and short numbers are read as they are written.
    pub(super) fn new(values: [f64; NAMES.len()]) -> Self {
        Self(values.map(|value| (value * 100.0).round() / 100.0))
    }

    /// Measurements of given values, all of [`NAMES`] and no others.
    ///
    /// # Errors
    ///
    /// What is missing, unknown or impossible.
    pub fn from_values<'a>(
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<Self, String> {
        let mut found = [f64::NAN; NAMES.len()];
        let mut seen = [false; NAMES.len()];
        for (name, value) in values {
            let Some(i) = NAMES.iter().position(|known| *known == name) else {
                return Err(format!("{name} is nothing that is measured"));
            };
            let possible = if i == 0 { POSSIBLE_WAKE } else { POSSIBLE_BANDWIDTH };
            if !possible.contains(&value) {
                let (min, most) = (possible.start(), possible.end());
                return Err(format!("{name} is {value}, expected {min} to {most}"));
            }
            (found[i], seen[i]) = (value, true);
        }
        match seen.iter().position(|seen| !seen) {
            Some(i) => Err(format!("{} is missing", NAMES[i])),
            None => Ok(Self(found)),
        }
    }

    /// Every name with its value.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        NAMES.into_iter().zip(self.0)
    }

    /// The value of a name; NaN if there is none such.
    pub fn get(&self, name: &str) -> f64 {
        self.values().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, value)| value)
    }
}

/// What measurements were made, when, and on which machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Seconds since 1970 when it was measured.
    pub measured_at: u64,
    /// What was measured.
    pub measurements: Measurements,
    cpu: String,
    facts: [(&'static str, usize); 4],
    level: String,
}

impl Profile {
    /// Measurements of `machine`, made now.
    pub fn new(machine: &Machine, measurements: Measurements) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
        Self { measured_at: now, measurements, ..Self::blank(machine, measurements) }
    }

    fn blank(machine: &Machine, measurements: Measurements) -> Self {
        let Machine { cores, l1, l2, llc, .. } = *machine;
        Self {
            measured_at: 0,
            measurements,
            cpu: machine.cpu.clone(),
            facts: [("cores", cores), ("l1_bytes", l1), ("l2_bytes", l2), ("llc_bytes", llc)],
            level: machine.level.to_string(),
        }
    }

    /// The file's text.
    pub fn to_json(&self) -> String {
        let mut machine = Map::from_iter([
            ("cpu".to_owned(), json!(self.cpu)),
            ("simd".to_owned(), json!(self.level)),
        ]);
        machine.extend(self.facts.map(|(name, value)| (name.to_owned(), json!(value))));
        let values = self.measurements.values();
        let measured = Map::from_iter(values.map(|(name, value)| (name.to_owned(), json!(value))));
        let file = json!({
            "version": VERSION,
            "measured_at": self.measured_at,
            "machine": machine,
            "measured": measured,
        });
        format!("{file:#}\n")
    }

    /// Reads the file's text, and believes it if it speaks of `machine`.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn from_json(text: &str, machine: &Machine) -> Result<Self, Unusable> {
        let damaged = |what: &str| Unusable::Damaged(what.to_owned());
        let file: Value =
            serde_json::from_str(text).map_err(|e| Unusable::Damaged(format!("not JSON: {e}")))?;
        match file.get("version") {
            Some(version) if version.as_u64() == Some(VERSION) => {}
            Some(version) => {
                return Err(Unusable::Damaged(format!(
                    "its version is {version}, and this package reads {VERSION}"
                )));
            }
            None => return Err(damaged("it has no version")),
        }
        let measured_at = file.get("measured_at").and_then(Value::as_u64);
        let measured_at = measured_at.filter(|seconds| *seconds < END_OF_TIME);
        let measured_at = measured_at.ok_or_else(|| damaged("it has no time of measurement"))?;
        let measured = file.get("measured").and_then(Value::as_object);
        let measured = measured.ok_or_else(|| damaged("it has no measurements"))?;
        // What is no number is as impossible as NaN.
        let values = measured.iter().map(|(k, v)| (k.as_str(), v.as_f64().unwrap_or(f64::NAN)));
        let measurements = Measurements::from_values(values).map_err(Unusable::Damaged)?;
        let profile = Self { measured_at, ..Self::blank(machine, measurements) };
        let there = file.get("machine").ok_or_else(|| damaged("it names no machine"))?;
        let here: Value = serde_json::from_str(&profile.to_json()).unwrap_or_default();
        for (fact, here) in here["machine"].as_object().into_iter().flatten() {
            match there.get(fact) {
                Some(there) if there == here => {}
                there => {
                    let there = there.unwrap_or(&Value::Null);
                    return Err(Unusable::OtherMachine(format!(
                        "it was measured where {fact} is {there}, and here it is {here}"
                    )));
                }
            }
        }
        Ok(profile)
    }

    /// Writes the file: to a temporary one beside it first, so that a reader finds the old
    /// profile or the new one, and never a part.
    ///
    /// # Errors
    ///
    /// Those of the file system, with the path.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.{count}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = (|| {
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)?;
            }
            // What an earlier process of this number may have left behind.
            let _ = fs::remove_file(&temporary);
            let mut file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
            file.write_all(self.to_json().as_bytes())?;
            file.sync_all()?;
            drop(file);
            fs::rename(&temporary, path)
        })();
        written.map_err(|error| {
            let _ = fs::remove_file(&temporary);
            explained("write", path, &error)
        })
    }
}

/// Removes a profile; says whether there was one.
///
/// # Errors
///
/// Those of the file system, with the path.
pub fn remove_profile(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(explained("remove", path, &error)),
    }
}

fn explained(what: &str, path: &Path, error: &io::Error) -> io::Error {
    let message = format!(
        "tune: cannot {what} the profile {}: {error}; RAPTORS_PROFILE can name another file",
        path.display()
    );
    io::Error::new(error.kind(), message)
}

/// Why a profile is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is not what `tune` writes.
    Damaged(String),
    /// It is sound, and speaks of another machine.
    OtherMachine(String),
}

/// Whether there is a profile, and whether it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileState {
    /// `RAPTORS_PROFILE` says that there shall be none, or there is no place for one.
    Off,
    /// None has been written.
    Absent,
    /// It is used.
    Used,
    /// It was measured on another machine: nothing is wrong, and `tune` would replace it.
    OtherMachine,
    /// It cannot be used, and the user should know.
    Ignored,
}

impl ProfileState {
    /// One word or two.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Absent => "absent",
            Self::Used => "used",
            Self::OtherMachine => "other machine",
            Self::Ignored => "ignored",
        }
    }
}

/// What was found where the profile is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileReport {
    /// The file; `None` if there shall be none.
    pub path: Option<PathBuf>,
    /// Whether it is used.
    pub state: ProfileState,
    /// Why it is not used.
    pub reason: Option<String>,
    /// The profile, if it is used.
    pub profile: Option<Profile>,
}

impl ProfileReport {
    /// Reads the profile of `machine` at `path`.
    pub fn read(path: Option<PathBuf>, machine: &Machine) -> Self {
        let Some(path) = path else {
            let reason = "RAPTORS_PROFILE says so, or there is no cache directory".to_owned();
            let (state, reason) = (ProfileState::Off, Some(reason));
            return Self { path: None, state, reason, profile: None };
        };
        let (state, reason, profile) = match text(&path) {
            Ok(None) => (ProfileState::Absent, None, None),
            Err(error) => (ProfileState::Ignored, Some(error.to_string()), None),
            Ok(Some(text)) => match Profile::from_json(&text, machine) {
                Ok(profile) => (ProfileState::Used, None, Some(profile)),
                Err(Unusable::Damaged(why)) => (ProfileState::Ignored, Some(why), None),
                Err(Unusable::OtherMachine(why)) => (ProfileState::OtherMachine, Some(why), None),
            },
        };
        Self { path: Some(path), state, reason, profile }
    }

    /// What the user should be told, if anything.
    pub fn warning(&self) -> Option<String> {
        let (path, reason) = (self.path.as_ref()?, self.reason.as_ref()?);
        (self.state == ProfileState::Ignored).then(|| {
            format!(
                "the profile {} is ignored: {reason}; `raptors-arrow tune` writes a new one, \
                 `raptors-arrow tune --reset` removes it",
                path.display()
            )
        })
    }
}

/// The text of a file, or `None` if there is no file.
fn text(path: &Path) -> io::Result<Option<String>> {
    let refuse = |why| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    match fs::metadata(path) {
        // None, or a home that is not ours or no directory at all, as services have.
        Err(_) => return Ok(None),
        // To open a pipe would be to wait for its writer.
        Ok(about) if !about.is_file() => return refuse("it is no file"),
        Ok(about) if about.len() > MOST_BYTES => return refuse("it is too long for a profile"),
        Ok(_) => {}
    }
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(Some(text))
}
