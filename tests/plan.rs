//! The plan at its thresholds: one below, at, and one above.

use raptors_arrow::dispatch::settings::BackendChoice;
use raptors_arrow::dispatch::{Backend, Family, Level, Machine, Settings, Store, Work, plan};

fn reduction(bytes: usize) -> Work {
    Work { family: Family::Reduction, bytes_read: bytes, bytes_written: 0, has_vdsp: false }
}

fn elementwise(bytes: usize) -> Work {
    Work { family: Family::Elementwise, bytes_read: bytes, bytes_written: bytes, has_vdsp: true }
}

fn threads(work: Work, machine: &Machine) -> usize {
    plan(&work, machine, &Settings::default()).threads
}

/// The smallest size in bytes for which `is` holds, if it holds from there on.
fn threshold(mut is: impl FnMut(usize) -> bool) -> usize {
    let (mut below, mut at) = (0usize, 1usize << 32);
    assert!(!is(below) && is(at), "the threshold is not in reach");
    while at - below > 1 {
        let middle = below + (at - below) / 2;
        if is(middle) { at = middle } else { below = middle }
    }
    at
}

#[test]
fn a_second_thread_is_woken_once_and_for_good() {
    let machine = Machine::reference();
    let at = threshold(|bytes| threads(reduction(bytes), &machine) > 1);
    assert_eq!(threads(reduction(at - 1), &machine), 1);
    assert_eq!(threads(reduction(at), &machine), 2);
    assert_eq!(threads(reduction(at + 1), &machine), 2);
    // Above it, more work never means fewer threads.
    let mut bytes = at;
    while bytes < 1 << 34 {
        assert_eq!(threads(reduction(bytes), &machine), 2, "{bytes}");
        bytes += bytes / 16;
    }
    // Waking costs 46 us here, in which one core moves about 2.3 MB from its cache.
    assert!((600 << 10..4 << 20).contains(&at), "{at}");
}

#[test]
fn slow_wakes_move_the_threshold_up_and_slow_memory_moves_it_down() {
    let reference = Machine::reference();
    let at = |machine: &Machine| threshold(|b| threads(reduction(b), machine) > 1);
    let sleepy = Machine { wake_ns: 4.0 * reference.wake_ns, ..reference.clone() };
    assert!(at(&sleepy) > 2 * at(&reference));
    let slow = Machine { near_bandwidth: 10.0, ..reference.clone() };
    assert!(at(&slow) < at(&reference));
}

#[test]
fn cores_that_add_little_are_not_woken_and_those_that_add_much_are() {
    let reference = Machine::reference();
    let alone = Machine { shared_gain: 0.0, far_scaling: 1.0, ..reference.clone() };
    for bytes in [4 << 20, 1 << 30] {
        assert_eq!(threads(reduction(bytes), &reference), 2);
        assert_eq!(threads(reduction(bytes), &alone), 1);
    }
    // What a second core adds from memory is what was measured, not what is usual.
    let many = Machine { cores: 16, far_scaling: 12.0, ..reference.clone() };
    let few = Machine { far_scaling: 2.0, ..many.clone() };
    assert!(threads(reduction(1 << 30), &many) > 12);
    assert_eq!(threads(reduction(1 << 30), &few), 3);
}

#[test]
fn threads_never_exceed_the_cores_or_the_setting() {
    let one = Machine { cores: 1, ..Machine::reference() };
    assert_eq!(threads(reduction(1 << 30), &one), 1);
    let many = Machine { cores: 64, far_scaling: 4.0, ..Machine::reference() };
    assert!((2..=64).contains(&threads(reduction(1 << 32), &many)));
    let limited = Settings { threads: Some(3), ..Settings::default() };
    assert!(plan(&reduction(1 << 32), &many, &limited).threads <= 3);
    let exact = Settings { exact_threads: true, ..limited };
    assert_eq!(plan(&reduction(8), &one, &exact).threads, 3);
    assert_eq!(threads(reduction(0), &many), 1);
}

#[test]
fn stores_stream_once_the_output_does_not_fit_the_cache() {
    let machine = Machine::reference();
    let store = |bytes: usize| plan(&elementwise(bytes), &machine, &Settings::default()).store;
    let at = threshold(|bytes| store(bytes) == Store::Streaming);
    assert_eq!(store(at - 1), Store::Cached);
    assert_eq!(store(at), Store::Streaming);
    assert_eq!(store(at + 1), Store::Streaming);
    assert!((machine.llc / 4..=machine.llc).contains(&at), "{at}");
    let portable = Machine { level: Level::Portable, ..machine.clone() };
    assert_eq!(plan(&elementwise(at), &portable, &Settings::default()).store, Store::Cached);
    let forced = Settings { store: Some(Store::Streaming), ..Settings::default() };
    assert_eq!(plan(&elementwise(64), &machine, &forced).store, Store::Streaming);
}

#[test]
fn tasks_are_neither_too_small_nor_too_large() {
    let machine = Machine::reference();
    for bytes in [0, 1, 1 << 10, 1 << 20, 3 << 20, 1 << 30, usize::MAX / 2] {
        let task = plan(&elementwise(bytes), &machine, &Settings::default()).task_bytes;
        assert!((64 << 10..=1 << 20).contains(&task), "{bytes}: {task}");
    }
}

#[test]
fn vdsp_is_the_default_for_elementwise_work_where_it_is() {
    let mac = Machine { has_vdsp: true, level: Level::Neon, ..Machine::reference() };
    let backend = |work: Work, machine: &Machine, backend: Option<BackendChoice>| {
        plan(&work, machine, &Settings { backend, ..Settings::default() }).backend
    };
    let work = elementwise(1 << 20);
    assert_eq!(backend(work, &mac, None), Backend::Vdsp);
    assert_eq!(backend(work, &mac, Some(BackendChoice::Native)), Backend::Native(Level::Neon));
    assert_eq!(backend(work, &Machine::reference(), None), Backend::Native(Level::Avx2));
    let unknown = Work { has_vdsp: false, ..work };
    assert_eq!(backend(unknown, &mac, None), Backend::Native(Level::Neon));
    // Reductions only when asked for: their bits differ.
    let sum = Work { has_vdsp: true, ..reduction(1 << 20) };
    assert_eq!(backend(sum, &mac, None), Backend::Native(Level::Neon));
    assert_eq!(backend(sum, &mac, Some(BackendChoice::Vdsp)), Backend::Native(Level::Neon));
    assert_eq!(backend(sum, &mac, Some(BackendChoice::VdspReductions)), Backend::Vdsp);
    // Large vDSP work is split over threads as any other.
    let large = plan(&elementwise(1 << 28), &mac, &Settings::default());
    assert_eq!((large.backend, large.threads), (Backend::Vdsp, 2));
}
