//! Workers that have just worked wait a moment for the next call before they sleep.
//!
//! To wake a sleeping worker takes longer than many calls; one that still waits begins at once. It
//! waits actively, as the threads of OpenMP and BLAS libraries do, but for half a millisecond only,
//! and it offers its core to others all the while (docs/perf/threads.md).

use std::sync::PoisonError;
use std::time::Duration;

use super::sync::{AtomicUsize, Deadline, LOOKS, Mutex, Ordering, TURNS, spin_loop, yield_now};

/// How long a worker waits for another call.
pub(super) const LINGER: Duration = Duration::from_micros(500);

/// Where calls leave work for workers that wait.
pub(super) struct Post<J> {
    /// The offer that stands, and how many workers may still take it.
    offer: Mutex<Option<(J, usize)>>,
    /// How many offers there were: what waiting workers look at.
    offers: AtomicUsize,
    waiting: AtomicUsize,
    /// How long a worker waits for another offer.
    patience: Duration,
}

impl<J: Clone + PartialEq> Post<J> {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            offer: Mutex::new(None),
            offers: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            patience,
        }
    }

    /// Workers that wait now.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Offers a job to waiting workers; to how many. To none while another call's offer stands.
    pub(super) fn offer(&self, job: &J, workers: usize) -> usize {
        let workers = workers.min(self.waiting());
        if workers == 0 {
            return 0;
        }
        let Ok(mut offer) = self.offer.try_lock() else { return 0 };
        if offer.is_some() {
            return 0;
        }
        *offer = Some((job.clone(), workers));
        drop(offer);
        self.offers.fetch_add(1, Ordering::Release);
        workers
    }

    /// Takes an offer back.
    pub(super) fn withdraw(&self, job: &J) {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        if offer.as_ref().is_some_and(|(offered, _)| offered == job) {
            *offer = None;
        }
    }

    fn take(&self) -> Option<J> {
        let mut offer = self.offer.lock().unwrap_or_else(PoisonError::into_inner);
        let (job, left) = offer.as_mut()?;
        *left -= 1;
        let (job, is_last) = (job.clone(), *left == 0);
        if is_last {
            *offer = None;
        }
        Some(job)
    }

    /// Waits for offers and runs them, until none came for a while.
    pub(super) fn wait(&self, run: impl Fn(J)) {
        loop {
            let seen = self.offers.load(Ordering::Acquire);
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let came = self.is_offered_after(seen);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if !came {
                return;
            }
            if let Some(job) = self.take() {
                run(job);
            }
        }
    }

    fn is_offered_after(&self, seen: usize) -> bool {
        let until = Deadline::after(self.patience);
        loop {
            for _ in 0..LOOKS {
                for _ in 0..TURNS {
                    if self.offers.load(Ordering::Acquire) != seen {
                        return true;
                    }
                    spin_loop();
                }
                if until.has_passed() {
                    return false;
                }
            }
            yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers a job to one worker that waits so long; whether it was offered, and what ran.
    fn offered(patience: Duration) -> (usize, usize) {
        let (post, ran) = (Post::new(patience), AtomicUsize::new(0));
        let mut offered = 0;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                post.wait(|job| {
                    ran.fetch_add(job, Ordering::Relaxed);
                });
            });
            while post.waiting() == 0 && !worker.is_finished() {
                std::thread::yield_now();
            }
            offered = post.offer(&7, 3);
        });
        assert_eq!(post.waiting(), 0, "it is asleep");
        post.withdraw(&7);
        assert_eq!(post.offer(&1, 1), 0, "nobody waits");
        (offered, ran.into_inner())
    }

    #[test]
    fn an_offer_goes_to_a_worker_that_waits() {
        // A busy machine may not come to make its offer in time: then the worker waits longer.
        let tries = (0..16).map(|i| offered(Duration::from_millis(10 << i)));
        let seen: Vec<_> = tries.take_while(|got| *got != (1, 7)).collect();
        assert!(seen.len() < 16, "the worker never ran the offer: {seen:?}");
        assert!(seen.iter().all(|(offered, ran)| *offered <= 1 && *ran == 0), "{seen:?}");
    }

    #[test]
    fn an_offer_that_was_withdrawn_or_stands_is_not_replaced() {
        let post = Post::new(LINGER);
        post.waiting.store(2, Ordering::Relaxed);
        assert_eq!(post.offer(&1, 2), 2);
        assert_eq!(post.offer(&2, 2), 0, "another stands");
        post.withdraw(&2);
        assert_eq!(post.take(), Some(1));
        post.withdraw(&1);
        assert_eq!(post.take(), None);
        assert_eq!(post.offer(&3, 9), 2);
        assert_eq!((post.take(), post.take(), post.take()), (Some(3), Some(3), None));
    }
}
