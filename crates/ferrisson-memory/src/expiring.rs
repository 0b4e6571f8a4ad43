//! A map whose entries end by themselves, as the keys of Redis do.

use std::{collections::HashMap, hash::Hash, time::Duration};

/// Keys and values with an optional end. Every operation is told the time, in milliseconds since
/// any fixed moment.
#[derive(Debug)]
pub(crate) struct Expiring<K, V> {
    entries: HashMap<K, Entry<V>>,
    sweep_at: usize,
}

/// A value and when it ends.
#[derive(Debug)]
pub(crate) struct Entry<V> {
    pub(crate) value: V,
    /// The last millisecond in which the value is there.
    pub(crate) until: Option<u64>,
}

/// Below this size nothing is gained by removing what has ended.
const SWEEP_MIN: usize = 64;

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), sweep_at: SWEEP_MIN }
    }
}

impl<V> Entry<V> {
    /// Time until the end; `None` when there is none.
    pub(crate) fn remaining(&self, now: u64) -> Option<Duration> {
        self.until.map(|until| Duration::from_millis(until.saturating_sub(now)))
    }

    fn is_live(&self, now: u64) -> bool {
        self.until.is_none_or(|until| now <= until)
    }
}

impl<K: Eq + Hash, V> Expiring<K, V> {
    pub(crate) fn get(&self, key: &K, now: u64) -> Option<&Entry<V>> {
        self.entries.get(key).filter(|entry| entry.is_live(now))
    }

    pub(crate) fn get_mut(&mut self, key: &K, now: u64) -> Option<&mut Entry<V>> {
        self.entries.get_mut(key).filter(|entry| entry.is_live(now))
    }

    pub(crate) fn contains(&self, key: &K, now: u64) -> bool {
        self.get(key, now).is_some()
    }

    /// Puts a value in the place of any other.
    pub(crate) fn put(&mut self, key: K, value: V, until: Option<u64>, now: u64) {
        if self.entries.len() >= self.sweep_at {
            self.entries.retain(|_, entry| entry.is_live(now));
            self.sweep_at = SWEEP_MIN.max(2 * self.entries.len());
        }
        self.entries.insert(key, Entry { value, until });
    }

    pub(crate) fn remove(&mut self, key: &K, now: u64) -> Option<V> {
        self.entries.remove(key).filter(|entry| entry.is_live(now)).map(|entry| entry.value)
    }

    /// The keys that are there.
    pub(crate) fn keys(&self, now: u64) -> impl Iterator<Item = &K> {
        self.entries.iter().filter(move |(_, entry)| entry.is_live(now)).map(|(key, _)| key)
    }
}

/// When something ends that lasts for `lifetime`. Whole milliseconds; never in the past.
pub(crate) fn end_of(lifetime: Duration, now: u64) -> u64 {
    now.saturating_add(u64::try_from(lifetime.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_there_through_its_last_millisecond() {
        let mut map = Expiring::default();
        map.put("a", 1, Some(end_of(Duration::from_millis(10), 5)), 5);
        let entry = map.get(&"a", 15).unwrap();
        assert_eq!((entry.value, entry.remaining(15)), (1, Some(Duration::ZERO)));
        assert!(map.get(&"a", 16).is_none() && map.get_mut(&"a", 16).is_none());
        assert!(!map.contains(&"a", 16));
        assert_eq!(map.keys(16).count(), 0);
        assert_eq!(map.remove(&"a", 16), None);
    }

    #[test]
    fn an_entry_without_an_end_stays() {
        let mut map = Expiring::default();
        map.put("a", 1, None, 0);
        assert_eq!(map.get(&"a", u64::MAX).unwrap().remaining(u64::MAX), None);
        assert_eq!(map.remove(&"a", u64::MAX), Some(1));
    }

    #[test]
    fn an_endless_lifetime_does_not_overflow() {
        assert_eq!(end_of(Duration::MAX, 5), u64::MAX);
    }

    #[test]
    fn what_has_ended_does_not_pile_up() {
        let mut map = Expiring::default();
        map.put(u64::MAX, (), None, 0);
        for now in 0..10_000 {
            map.put(now, (), Some(now), now);
        }
        assert!(map.entries.len() <= SWEEP_MIN, "{}", map.entries.len());
        assert!(map.contains(&u64::MAX, 10_000));
    }
}
