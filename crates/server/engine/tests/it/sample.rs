//! Samples of cases, by `MUSTER_SEED`: three successive seeds cover all cases, and `MUSTER_SEED=all` takes all at once.

/// Reports whether a case is in the sample of a seed. Points of a step come in threes: the shift rotates which of them is
/// taken from step to step.
pub(crate) fn is_sampled(index: usize, seed: usize) -> bool {
    (index + index / 3 + seed).is_multiple_of(3)
}

/// Returns the seed; none takes all cases.
pub(crate) fn seed() -> Option<usize> {
    match std::env::var("MUSTER_SEED").as_deref() {
        Ok("all") => None,
        Ok(seed) => Some(seed.parse().expect("MUSTER_SEED is a number, or `all`")),
        Err(_) => Some(0),
    }
}

/// Reports whether the sample has the case of this name. A name stands for its number: the sum of its bytes.
pub(crate) fn has(name: &str) -> bool {
    seed().is_none_or(|seed| is_sampled(name.bytes().map(usize::from).sum(), seed))
}

#[test]
fn three_seeds_cover_every_number() {
    for index in 0..30 {
        assert_eq!((0..3).filter(|seed| is_sampled(index, *seed)).count(), 1, "{index}");
    }
}
