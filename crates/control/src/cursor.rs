//! Page tokens: where the next page starts, bound to the list and its filter, so that a token cannot be used elsewhere.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_api::{Code, Problem};
use muster_store::Page;
use uuid::Uuid;

use crate::Cx;
use crate::refuse::Result;

const TAG: usize = 16;

impl Cx {
    /// The page that a request asks for. `list` names the list and everything that filters it.
    pub(crate) async fn page(&self, list: &str, size: Option<u16>, token: Option<&str>) -> Result<Page> {
        let size = i64::from(size.unwrap_or(50));
        let Some(token) = token else { return Ok(Page { after: Uuid::nil(), size: size + 1 }) };
        let bad = || {
            Problem::new(
                Code::BadCursor,
                "the page token is not one of ours for this list: start again without it",
            )
            .with_errors(vec![muster_api::FieldError {
                pointer: "query/page_token".to_owned(),
                detail: "not a token of this list".to_owned(),
            }])
        };
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        if bytes.len() != 16 + TAG {
            return Err(bad());
        }
        let (id, tag) = bytes.split_at(16);
        let expected = self.tag(list, id).await?;
        if !bool::from(subtle::ConstantTimeEq::ct_eq(&expected[..], tag)) {
            return Err(bad());
        }
        Ok(Page { after: Uuid::from_slice(id).map_err(|_| bad())?, size: size + 1 })
    }

    /// Cuts the one row too many that was fetched, and makes the token of the page that it would start.
    pub(crate) async fn next_page<T>(
        &self,
        list: &str,
        page: Page,
        items: &mut Vec<T>,
        id: impl Fn(&T) -> Uuid,
    ) -> Result<Option<String>> {
        if items.len() < usize::try_from(page.size).unwrap_or(usize::MAX) {
            return Ok(None);
        }
        items.pop();
        let Some(last) = items.last() else { return Ok(None) };
        let id = id(last);
        let mut bytes = id.as_bytes().to_vec();
        bytes.extend(self.tag(list, id.as_bytes()).await?);
        Ok(Some(URL_SAFE_NO_PAD.encode(bytes)))
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
