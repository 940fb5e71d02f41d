//! Page tokens: the start of the next page, bound to the list and its filter, so that a token cannot be used elsewhere.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::future::BoxFuture;
use muster_api::Code;
use muster_db::Page;
use uuid::Uuid;

use crate::{Cx, Error, Result};

const TAG: usize = 16;
/// Maximum bytes per page of large items; a page holds at least one item.
const PAGE_BYTES: usize = 4 << 20;
/// Number of large items read at once.
const PORTION: i64 = 8;

/// Limits of a page in the order of sequence numbers. It has at least one item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLimits {
    pub(crate) items: u16,
    pub(crate) bytes: usize,
}

impl PageLimits {
    /// Returns the limits of a listed page.
    pub(crate) fn of_list(page_size: Option<u16>) -> Self {
        Self { items: page_size.unwrap_or(50), bytes: PAGE_BYTES }
    }
}

/// A page of a list ordered by name: rows after this name, one more than are returned.
pub(crate) struct NamePage {
    pub(crate) after: String,
    pub(crate) size: i64,
}

fn bad() -> Error {
    Error::new(Code::BadCursor, "the page token is not valid for this list: start again without it")
        .with_fields(vec![muster_api::FieldError {
            pointer: "query/page_token".to_owned(),
            detail: "not a token of this list".to_owned(),
        }])
}

/// Removes the extra row and returns the last remaining item, if there was an extra one.
fn cut<T>(items: &mut Vec<T>, size: i64) -> Option<&T> {
    if items.len() < usize::try_from(size).unwrap_or(usize::MAX) {
        return None;
    }
    items.pop();
    items.last()
}

impl Cx {
    /// Returns the requested page. `list` names the list and all of its filters.
    pub(crate) async fn page(&self, list: &str, size: Option<u16>, token: Option<&str>) -> Result<Page> {
        let size = i64::from(size.unwrap_or(50)) + 1;
        let Some(token) = token else { return Ok(Page { after: Uuid::nil(), size }) };
        let last = self.opened(list, token).await?;
        Ok(Page { after: Uuid::from_slice(&last).map_err(|_| bad())?, size })
    }

    /// Removes the extra row and returns the token of the next page.
    pub(crate) async fn next_page<T>(
        &self,
        list: &str,
        page: Page,
        items: &mut Vec<T>,
        id: impl Fn(&T) -> Uuid,
    ) -> Result<Option<String>> {
        match cut(items, page.size) {
            Some(last) => Ok(Some(self.sealed(list, id(last).as_bytes()).await?)),
            None => Ok(None),
        }
    }

    /// Reads a page of items that may be large. It ends at its number of items or of bytes, whichever comes first, and is
    /// read in small batches, so that neither the response nor memory use grows with the items' size. Also returns the token
    /// of the next page, if there is one.
    pub(crate) async fn read_page<'f, T>(
        &self,
        list: &str,
        page: Page,
        id: impl Fn(&T) -> Uuid,
        bytes: impl Fn(&T) -> usize,
        read: impl Fn(Page) -> BoxFuture<'f, muster_db::Result<Vec<T>>>,
    ) -> Result<(Vec<T>, Option<String>)> {
        self.large_answer().await;
        let most = usize::try_from(page.size).unwrap_or(usize::MAX) - 1;
        let (mut items, mut size, mut after): (Vec<T>, usize, Uuid) = (Vec::new(), 0, page.after);
        loop {
            let portion = read(Page { after, size: PORTION }).await?;
            let is_last = i64::try_from(portion.len()).is_ok_and(|read| read < PORTION);
            for item in portion {
                let grown = size + bytes(&item);
                if items.len() >= most || (grown > PAGE_BYTES && !items.is_empty()) {
                    return Ok((items, Some(self.sealed(list, after.as_bytes()).await?)));
                }
                (size, after) = (grown, id(&item));
                items.push(item);
            }
            if is_last {
                return Ok((items, None));
            }
        }
    }

    /// The same for a list in the order of sequence numbers, whose next page begins after the last number of this one. `read` takes
    /// the number before the first, and how many to read.
    pub(crate) async fn read_sequence<'f, T>(
        mut after: i64,
        most: PageLimits,
        sequence: impl Fn(&T) -> i64,
        bytes: impl Fn(&T) -> usize,
        read: impl Fn(i64, i64) -> BoxFuture<'f, muster_db::Result<Vec<T>>>,
    ) -> Result<Vec<T>> {
        let (mut items, mut size): (Vec<T>, usize) = (Vec::new(), 0);
        loop {
            let wanted = i64::try_from(usize::from(most.items) - items.len()).unwrap_or(PORTION).min(PORTION);
            let portion = read(after, wanted).await?;
            let is_last = i64::try_from(portion.len()).is_ok_and(|read| read < wanted);
            for item in portion {
                size += bytes(&item);
                if size > most.bytes && !items.is_empty() {
                    return Ok(items);
                }
                after = sequence(&item);
                items.push(item);
            }
            if is_last || items.len() >= usize::from(most.items) {
                return Ok(items);
            }
        }
    }

    /// The same for a list in the order of names.
    pub(crate) async fn page_by_name(
        &self,
        list: &str,
        size: Option<u16>,
        token: Option<&str>,
    ) -> Result<NamePage> {
        let size = i64::from(size.unwrap_or(50)) + 1;
        let Some(token) = token else { return Ok(NamePage { after: String::new(), size }) };
        let last = self.opened(list, token).await?;
        Ok(NamePage { after: String::from_utf8(last).map_err(|_| bad())?, size })
    }

    /// Removes the extra row and returns the token of the next page, for a list ordered by name.
    pub(crate) async fn next_by_name<T>(
        &self,
        list: &str,
        page: &NamePage,
        items: &mut Vec<T>,
        name: impl Fn(&T) -> &str,
    ) -> Result<Option<String>> {
        match cut(items, page.size) {
            Some(last) => Ok(Some(self.sealed(list, name(last).as_bytes()).await?)),
            None => Ok(None),
        }
    }

    /// Verifies a token of this list and returns the last key of the previous page.
    async fn opened(&self, list: &str, token: &str) -> Result<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        let Some(length) = bytes.len().checked_sub(TAG) else { return Err(bad()) };
        let tag = bytes.split_off(length);
        let expected = self.tag(list, &bytes).await?;
        match bool::from(subtle::ConstantTimeEq::ct_eq(&expected[..], &tag[..])) {
            true => Ok(bytes),
            false => Err(bad()),
        }
    }

    async fn sealed(&self, list: &str, last: &[u8]) -> Result<String> {
        let mut bytes = last.to_vec();
        bytes.extend(self.tag(list, last).await?);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    async fn tag(&self, list: &str, id: &[u8]) -> Result<Vec<u8>> {
        let key = self.platform.envelope.derive(&self.platform.store, "page tokens").await?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let mut context = hmac::Context::with_key(&key);
        context.update(list.as_bytes());
        context.update(&[0]);
        context.update(id);
        Ok(context.sign().as_ref()[..TAG].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// The sizes of a page's items, from a list whose items have these sizes and the numbers 1, 2, ….
    async fn page(sizes: &[usize], after: i64, most: u16) -> Vec<i64> {
        let read = |after: i64, limit: i64| {
            let from = (1..).zip(sizes.iter().copied()).filter(move |(number, _)| *number > after);
            let portion: Vec<(i64, usize)> = from.take(usize::try_from(limit).unwrap()).collect();
            async move { Ok(portion) }.boxed()
        };
        let items = Cx::read_sequence(
            after,
            PageLimits::of_list(Some(most)),
            |item: &(i64, usize)| item.0,
            |item| item.1,
            read,
        )
        .await;
        items.unwrap().into_iter().map(|(number, _)| number).collect()
    }

    #[tokio::test]
    async fn a_page_by_sequence_ends_by_its_number_or_by_its_bytes() {
        let small = [10; 100];
        assert_eq!(page(&small, 0, 50).await, (1..=50).collect::<Vec<_>>());
        assert_eq!(page(&small, 90, 50).await, (91..=100).collect::<Vec<_>>());
        assert!(page(&small, 100, 50).await.is_empty());
        let large = [1 << 20; 10];
        assert_eq!(page(&large, 0, 200).await, [1, 2, 3, 4]);
        assert_eq!(page(&large, 8, 200).await, [9, 10]);
        // One that is too large for any page comes alone.
        assert_eq!(page(&[5 << 20, 1, 1], 0, 200).await, [1]);
        assert_eq!(page(&[1, 5 << 20, 1], 0, 200).await, [1]);
        assert_eq!(page(&[1, 5 << 20, 1], 1, 200).await, [2]);
    }
}
