//! Leases: time-bound rights, with a generation that fences earlier holders.

use jiff::{SignedDuration, Timestamp};

use crate::sql::{args, pair, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    // With several replicas, only the database's clock is shared; SQLite has one process and one clock.
    LEASE_ACQUIRE = pair(
        "INSERT INTO leases (name, holder, generation, expires_at)
         VALUES ($1, $2, 1, now() + make_interval(secs => $3 / 1000.0))
         ON CONFLICT (name) DO UPDATE SET holder = $2, generation = leases.generation + 1,
            expires_at = now() + make_interval(secs => $3 / 1000.0)
         WHERE leases.expires_at < now() AND $4::timestamptz IS NOT NULL RETURNING generation",
        "INSERT INTO leases (name, holder, generation, expires_at) VALUES ($1, $2, 1, $4 + $3 * 1000)
         ON CONFLICT (name) DO UPDATE SET holder = $2, generation = leases.generation + 1, expires_at = $4 + $3 * 1000
         WHERE leases.expires_at < $4 RETURNING generation");
    LEASE_EXTEND = pair(
        "UPDATE leases SET expires_at = now() + make_interval(secs => $4 / 1000.0)
         WHERE name = $1 AND holder = $2 AND generation = $3 AND $5::timestamptz IS NOT NULL",
        "UPDATE leases SET expires_at = $5 + $4 * 1000 WHERE name = $1 AND holder = $2 AND generation = $3");
    LEASE_END = pair(
        "UPDATE leases SET expires_at = now() - interval '1 second' WHERE name = $1 AND holder = $2 AND generation = $3",
        "UPDATE leases SET expires_at = 0 WHERE name = $1 AND holder = $2 AND generation = $3");
}

/// A lease that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The name of the leased resource.
    pub name: String,
    /// The holder.
    pub holder: String,
    /// Generation, bumped whenever the holder changes.
    pub generation: i64,
    /// Duration of the lease and of each extension.
    pub length: SignedDuration,
}

impl Store {
    /// Acquires the lease if it is free.
    pub async fn lease_acquire(
        &self,
        name: &str,
        holder: &str,
        length: SignedDuration,
        now: Timestamp,
    ) -> Result<Option<Lease>> {
        let mut tx = self.begin().await?;
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let rows = tx.fetch_all(&LEASE_ACQUIRE, args![name, holder, millis, now]).await?;
        let generation: Option<i64> = rows.first().map(|row| row.get(0)).transpose()?;
        tx.commit().await?;
        Ok(generation.map(|generation| Lease {
            name: name.to_owned(),
            holder: holder.to_owned(),
            generation,
            length,
        }))
    }

    /// Releases the lease, so that another holder can acquire it immediately.
    pub async fn lease_end(&self, lease: &Lease) -> Result<()> {
        let mut tx = self.begin().await?;
        tx.execute(&LEASE_END, args![&lease.name, &lease.holder, lease.generation]).await?;
        tx.commit().await
    }
}

impl Tx {
    /// Extends the lease and thereby verifies that it is still held: the fence of everything else in this transaction.
    pub async fn lease_extend(&mut self, lease: &Lease, now: Timestamp) -> Result<()> {
        let millis = i64::try_from(lease.length.as_millis()).unwrap_or(i64::MAX);
        let args = args![&lease.name, &lease.holder, lease.generation, millis, now];
        self.execute_one(&LEASE_EXTEND, args, StoreError::Fenced).await
    }
}
