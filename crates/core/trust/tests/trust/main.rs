//! What may be believed of signatures, tried from outside: verdicts, damage, and OpenSSL as a second opinion.

mod flips;
mod keys;
mod openssl;
mod verdict;
