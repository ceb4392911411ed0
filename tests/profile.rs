//! The profile: what is written is read again, and what cannot be believed is not.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use raptors_arrow::dispatch::profile::{NAMES, Unusable};
use raptors_arrow::dispatch::settings::profile_path_from;
use raptors_arrow::dispatch::{
    Family, Level, Machine, Measurements, Profile, ProfileReport, ProfileState, Settings, Work,
    plan, remove_profile,
};

/// A directory of one test, removed when it ends.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Self {
        let name = format!("raptors-profile-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("raptors-arrow").join("profile.json")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn here() -> Machine {
    Machine { cpu: "a CPU \"quoted\" µ".to_owned(), ..Machine::reference() }
}

/// Made-up measurements: bandwidths `bandwidth`, twice that for all threads.
fn measured(wake_ns: f64, bandwidth: f64) -> Measurements {
    let value = |name: &&'static str| match *name {
        "wake_ns" => wake_ns,
        name if name.ends_with("all") => 2.0 * bandwidth,
        _ => bandwidth,
    };
    Measurements::from_values(NAMES.iter().map(|name| (*name, value(name)))).unwrap()
}

fn profile() -> Profile {
    Profile::new(&here(), measured(31_234.57, 33.03))
}

fn read(path: &Path) -> ProfileReport {
    ProfileReport::read(Some(path.to_owned()), &here())
}

#[test]
fn what_is_written_is_read_again() {
    let place = Place::new("round-trip");
    let report = read(&place.file());
    assert_eq!((report.state, report.warning()), (ProfileState::Absent, None));
    let profile = profile();
    profile.write(&place.file()).unwrap();
    let report = read(&place.file());
    assert_eq!((report.state, report.warning()), (ProfileState::Used, None));
    assert_eq!(report.profile, Some(profile.clone()));
    assert!(profile.measured_at > 1_700_000_000);
    // Over an older one, and beside what a killed process left.
    fs::write(place.file().with_file_name("profile.json.1.0.tmp"), "half").unwrap();
    let newer = Profile::new(&here(), measured(40_000.0, 50.0));
    newer.write(&place.file()).unwrap();
    assert_eq!(read(&place.file()).profile, Some(newer));
    assert!(remove_profile(&place.file()).unwrap());
    assert!(!remove_profile(&place.file()).unwrap());
    assert_eq!(read(&place.file()).state, ProfileState::Absent);
}

#[test]
fn every_truncation_is_ignored_with_a_warning() {
    let place = Place::new("truncated");
    profile().write(&place.file()).unwrap();
    let text = fs::read_to_string(place.file()).unwrap();
    for end in (0..text.trim_end().len()).filter(|end| text.is_char_boundary(*end)) {
        let got = Profile::from_json(&text[..end], &here());
        assert!(matches!(got, Err(Unusable::Damaged(_))), "{end}: {got:?}");
    }
    fs::write(place.file(), &text[..text.len() / 2]).unwrap();
    let report = read(&place.file());
    assert_eq!((report.state, &report.profile), (ProfileState::Ignored, &None));
    let warning = report.warning().unwrap();
    for part in ["profile.json is ignored: not JSON", "raptors-arrow tune"] {
        assert!(warning.contains(part), "{warning}");
    }
}

#[test]
fn what_is_no_profile_is_ignored() {
    let place = Place::new("damaged");
    let file = place.file();
    fs::create_dir_all(&file).unwrap();
    assert_eq!(read(&file).reason.as_deref(), Some("it is no file"));
    fs::remove_dir(&file).unwrap();
    let cases: [&[u8]; 7] = [b"", b"\0\0\0", b"\xff\xfe", b"[]", b"null", b"{}", &[b' '; 1 << 17]];
    for bytes in cases {
        fs::write(&file, bytes).unwrap();
        let report = read(&file);
        assert_eq!(report.state, ProfileState::Ignored, "{bytes:?}");
        assert!(report.warning().is_some());
    }
    // A home that is no directory, as services have, is no profile and no reason to warn.
    let report = read(&file.join("raptors-arrow").join("profile.json"));
    assert_eq!((report.state, report.warning()), (ProfileState::Absent, None));
    assert_eq!(ProfileReport::read(None, &here()).state, ProfileState::Off);
}

#[test]
fn other_versions_and_impossible_values_are_ignored() {
    let text = profile().to_json();
    let reason = |from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        match Profile::from_json(&text.replace(from, to), &here()) {
            Err(Unusable::Damaged(why)) => why,
            other => panic!("{to}: {other:?}"),
        }
    };
    for version in ["2", "0", "-1", "\"1\"", "null"] {
        let why = reason("\"version\": 1", &format!("\"version\": {version}"));
        assert!(why.contains("version"), "{why}");
    }
    let mut late = profile();
    late.measured_at = u64::MAX;
    let late = Profile::from_json(&late.to_json(), &here());
    assert!(matches!(late, Err(Unusable::Damaged(_))), "{late:?}");
    let wake = "\"wake_ns\": 31234.57";
    for value in ["0", "-31234.5", "99", "1e9", "1e999", "NaN", "\"31234.5\"", "null", "[]"] {
        let why = reason(wake, &format!("\"wake_ns\": {value}"));
        assert!(why.contains("wake_ns is") || why.contains("not JSON"), "{value}: {why}");
    }
    assert!(reason("\"wake_ns\"", "\"wake_us\"").contains("wake_us"));
    assert_eq!(reason(wake, "\"read_l1_one\": 1"), "wake_ns is missing");
    let good: BTreeMap<_, _> = measured(30_000.0, 40.0).values().collect();
    for name in NAMES {
        for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e9] {
            let values = good.iter().map(|(n, v)| (*n, if *n == name { bad } else { *v }));
            assert!(Measurements::from_values(values).is_err(), "{name} {bad}");
        }
    }
}

#[test]
fn a_profile_of_another_machine_is_ignored_without_a_warning() {
    let place = Place::new("other");
    profile().write(&place.file()).unwrap();
    let others = [
        ("cpu", Machine { cpu: "another".to_owned(), ..here() }),
        ("cores", Machine { cores: 64, ..here() }),
        ("simd", Machine { level: Level::Avx512, ..here() }),
        ("l1_bytes", Machine { l1: 48 << 10, ..here() }),
        ("l2_bytes", Machine { l2: 1 << 20, ..here() }),
        ("llc_bytes", Machine { llc: 16 << 20, ..here() }),
    ];
    for (fact, machine) in others {
        let report = ProfileReport::read(Some(place.file()), &machine);
        assert_eq!((report.state, report.warning()), (ProfileState::OtherMachine, None));
        assert!(report.reason.unwrap().contains(fact));
        assert_eq!(report.profile, None);
    }
    // Memory and speeds are no part of what a machine is.
    let same = Machine { memory: 1 << 30, wake_ns: 1.0, far_bandwidth: 1.0, ..here() };
    assert_eq!(ProfileReport::read(Some(place.file()), &same).state, ProfileState::Used);
}

#[test]
fn a_reader_never_sees_a_part() {
    let place = Place::new("atomic");
    let file = place.file();
    profile().write(&file).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers = [1.0, 2.0].map(|bandwidth| {
            let file = &file;
            scope.spawn(move || {
                let profile = Profile::new(&here(), measured(30_000.0, bandwidth));
                for _ in 0..50 {
                    profile.write(file).unwrap();
                }
            })
        });
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) || reads == 0 {
                let report = read(&file);
                assert_eq!(report.state, ProfileState::Used, "{:?}", report.reason);
                reads += 1;
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
    let left: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "temporary files are left: {left:?}");
}

#[test]
fn a_profile_that_cannot_be_written_is_an_error_with_the_path() {
    let place = Place::new("unwritable");
    let blocker = place.0.join("blocker");
    fs::write(&blocker, "a file").unwrap();
    let error = profile().write(&blocker.join("profile.json")).unwrap_err().to_string();
    assert!(error.contains("blocker") && error.contains("RAPTORS_PROFILE"), "{error}");
    assert!(remove_profile(&place.0).is_err());
}

#[test]
fn a_profile_changes_the_plan() {
    let plan_of = |machine: &Machine, bytes_read: usize| {
        let work =
            Work { family: Family::Reduction, bytes_read, bytes_written: 0, has_vdsp: false };
        plan(&work, machine, &Settings::default())
    };
    let size = 4 << 20;
    assert_eq!(plan_of(&here(), size).threads, 2);
    // Workers that wake after 100 ms are no help, where the data lies for less than that.
    let sleepy = here().measured(&measured(1e8, 33.0));
    assert_eq!(plan_of(&sleepy, size).threads, 1);
    assert_eq!(plan_of(&sleepy, 64 << 20).threads, 1);
    // And those that wake at once are worth it from small sizes on.
    let eager = here().measured(&measured(200.0, 33.0));
    assert_eq!(plan_of(&here(), 512 << 10).threads, 1);
    assert_eq!(plan_of(&eager, 512 << 10).threads, 2);
    // A second core that adds nothing is not woken.
    let values = measured(25_000.0, 20.0)
        .values()
        .map(|(name, value)| (name, if name.ends_with("all") { value / 2.0 } else { value }));
    let bound = here().measured(&Measurements::from_values(values).unwrap());
    assert_eq!((bound.far_scaling, bound.shared_gain), (1.0, 0.0));
    assert_eq!(plan_of(&bound, 1 << 30).threads, 1);
}

#[test]
fn measurements_become_the_speeds_of_the_plan() {
    let machine = Machine { cores: 5, ..here() }.measured(&measured(50_000.0, 12.0));
    assert_eq!(machine.wake_ns, 50_000.0);
    assert_eq!((machine.near_bandwidth, machine.far_bandwidth), (12.0, 12.0));
    assert_eq!((machine.far_scaling, machine.shared_gain), (2.0, 0.25));
    assert_eq!((machine.cores, machine.llc), (5, here().llc));
}

#[test]
fn the_place_of_the_profile_follows_the_variables() {
    let path = |variables: &[(&str, &str)]| {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        profile_path_from(|name| variables.get(name).map(OsString::from))
    };
    let chosen = path(&[("RAPTORS_PROFILE", "some/where.json"), ("HOME", "/home/me")]);
    assert_eq!(chosen, Some(PathBuf::from("some/where.json")));
    for off in ["", "off", "OFF"] {
        assert_eq!(path(&[("RAPTORS_PROFILE", off), ("HOME", "/home/me")]), None);
    }
    assert_eq!(path(&[]), None);
    if cfg!(target_os = "linux") {
        let file =
            |directory: &str| Some(PathBuf::from(directory).join("raptors-arrow/profile.json"));
        assert_eq!(path(&[("HOME", "/home/me")]), file("/home/me/.cache"));
        assert_eq!(path(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "/cache")]), file("/cache"));
        let relative = path(&[("HOME", "/home/me"), ("XDG_CACHE_HOME", "cache")]);
        assert_eq!(relative, file("/home/me/.cache"));
    }
}
