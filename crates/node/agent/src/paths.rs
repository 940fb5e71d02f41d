//! Paths of the wire protocol.

pub(crate) const JOIN: &str = "/node/v1/join";
pub(crate) const RENEW: &str = "/node/v1/renew";
pub(crate) const HELLO: &str = "/node/v1/hello";
pub(crate) const POLL: &str = "/node/v1/poll";
pub(crate) const REPORT: &str = "/node/v1/report";
pub(crate) const INVENTORY: &str = "/node/v1/inventory";
pub(crate) const OBSERVE: &str = "/node/v1/observe";
pub(crate) const SECRET: &str = "/node/v1/secret";
/// Followed by the stream's id.
pub(crate) const STREAMS: &str = "/node/v1/streams/";

#[cfg(test)]
mod tests {
    #[test]
    fn the_paths_are_those_of_the_contract() {
        let ours = [
            super::JOIN,
            super::RENEW,
            super::HELLO,
            super::POLL,
            super::REPORT,
            super::INVENTORY,
            super::OBSERVE,
            super::SECRET,
        ];
        let contract: Vec<&str> = muster_wire::ENDPOINTS.iter().map(|operation| operation.path).collect();
        assert_eq!(contract, ours);
        assert_eq!(muster_wire::STREAM.path, format!("{}{{stream}}", super::STREAMS));
    }
}
