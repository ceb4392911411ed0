//! How a call runs: which instruction set or vendor library, how many threads, in what pieces,
//! through which stores. It changes speed, never the answer.
//!
//! `machine` is read once, with the speeds that `measure` found and `profile` keeps; `plan` is a pure
//! function of the work and the machine; `run` carries a plan out and is the only file that names
//! rayon; `handover` gives workers their share of a call, and `linger` keeps them awake for a moment
//! (both stand on `sync`); `simd` runs a body at an instruction set; `gemm` multiplies matrices;
//! `vdsp` and `blas` wrap Accelerate; `settings` is the only file that reads the environment.

#[cfg(any(target_os = "macos", test))]
pub(crate) mod blas;
#[cfg(all(test, not(target_os = "macos")))]
pub(crate) mod blas_double;
pub(crate) mod gemm;
mod handover;
mod linger;
pub mod machine;
pub mod measure;
pub mod plan;
pub mod profile;
pub(crate) mod run;
pub mod settings;
pub(crate) mod simd;
mod sync;
#[cfg(any(target_os = "macos", test))]
pub(crate) mod vdsp;
#[cfg(all(test, not(target_os = "macos")))]
pub(crate) mod vdsp_double;
pub(crate) mod vendor;

pub use machine::{Machine, machine, profile_status};
pub use measure::{Traffic, bandwidth, measure};
pub use plan::{Backend, Family, Plan, Store, Work, plan};
pub(crate) use plan::{SHORT_PIECE, WORTH_HALVING};
pub use profile::{Measurements, Profile, ProfileReport, ProfileState, remove_profile};
pub use run::{
    INTERRUPT_EVERY, executed, set_interrupt_check, set_interrupt_interval, threads_started,
};
pub use settings::{Settings, num_threads, set_num_threads, with_settings};
pub use simd::Level;
