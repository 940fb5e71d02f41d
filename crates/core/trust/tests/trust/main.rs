//! Trust in signatures, tested from outside: verdicts, corruption, and OpenSSL as a second implementation.

mod flips;
mod keys;
mod openssl;
mod verdict;
