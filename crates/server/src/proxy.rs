//! Who has really called, where proxies stand in between.
//!
//! A proxy is believed about the address before it, and nobody else is: whoever connects from elsewhere could write anything into
//! a header. Each proxy adds its caller at the end, so the list is read from there: the first address that is no trusted proxy's is the
//! client's. One header is read, the one that the deployment's proxies write; the other could be a client's own invention that
//! they pass on.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::{HeaderMap, HeaderName, header};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// More proxies in a row than this are not looked at.
const HOPS_MAX: usize = 32;

/// A network of trusted proxies, as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem =
            || format!("'{text}' is no address and no network; they look like 127.0.0.1 and 10.0.0.0/8");
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().map_err(|_| problem())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(longest), str::parse).map_err(|_| problem())?;
        if prefix > longest {
            return Err(problem());
        }
        Ok(Self { address, prefix })
    }
}

impl Network {
    fn contains(&self, other: IpAddr) -> bool {
        // A shift by the whole width gives nothing: in a network of prefix 0 all addresses are alike.
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(32 - self.prefix)
                    .unwrap_or(0)
                    == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits())
                    .checked_shr(128 - self.prefix)
                    .unwrap_or(0)
                    == 0
            }
            _ => false,
        }
    }
}

/// The header in which proxies write whom they speak for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedBy {
    /// `X-Forwarded-For: 203.0.113.9`
    #[default]
    XForwardedFor,
    /// `Forwarded: for=203.0.113.9` (RFC 7239)
    Forwarded,
}

/// Which proxies are believed, and where they write.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Where they are; nobody is believed where there are none.
    pub trusted: Vec<Network>,
    /// Where they write.
    pub header: ForwardedBy,
}

impl Proxies {
    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// The client's address: that of the connection, or what the trusted proxies before it say.
    pub(crate) fn client(&self, connected: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = connected.to_canonical();
        if !self.trusts(client) {
            return client;
        }
        let name = match self.header {
            ForwardedBy::XForwardedFor => X_FORWARDED_FOR,
            ForwardedBy::Forwarded => header::FORWARDED,
        };
        let lines: Vec<_> = headers.get_all(name).iter().collect();
        let entries = lines
            .into_iter()
            .rev()
            .flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for entry in entries.take(HOPS_MAX) {
            let address = match self.header {
                ForwardedBy::XForwardedFor => node(entry),
                ForwardedBy::Forwarded => forwarded_for(entry).and_then(node),
            };
            // What cannot be read was not written by those whom we believe; the last of them is all that is known.
            let Some(address) = address else { break };
            client = address;
            if !self.trusts(client) {
                break;
            }
        }
        client
    }
}

/// The `for` of one element of a `Forwarded` header.
fn forwarded_for(element: &str) -> Option<&str> {
    element.split(';').find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("for")
            .then(|| value.trim().trim_matches('"'))
    })
}

/// An address, with or without a port, as proxies write it.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok();
    address
        .or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
        .map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(header: ForwardedBy) -> Proxies {
        let trusted = ["10.0.0.0/8", "127.0.0.1", "fd00::/8"];
        Proxies {
            trusted: trusted.iter().map(|text| text.parse().unwrap()).collect(),
            header,
        }
    }

    fn headers(name: &HeaderName, lines: &[&str]) -> HeaderMap {
        let pair = |line: &&str| (name.clone(), line.parse().unwrap());
        lines.iter().map(pair).collect()
    }

    #[test]
    fn a_trusted_proxy_is_believed_and_nobody_else() {
        for (connected, lines, client) in [
            ("192.0.2.1", &["203.0.113.9"][..], "192.0.2.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            ("::ffff:127.0.0.1", &["203.0.113.9"], "203.0.113.9"),
            // What the client wrote itself stands before what the proxy added.
            ("127.0.0.1", &["198.51.100.7, 203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1", &["198.51.100.7", "203.0.113.9"], "203.0.113.9"),
            (
                "127.0.0.1",
                &["198.51.100.7, 203.0.113.9, 10.1.2.3"],
                "203.0.113.9",
            ),
            ("127.0.0.1", &["10.1.2.3, 10.4.5.6"], "10.1.2.3"),
            ("127.0.0.1", &["198.51.100.7, nonsense, 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", &["nonsense"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.9:4711"], "203.0.113.9"),
            ("fd00::1", &["2001:db8::7"], "2001:db8::7"),
            ("fd00::1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            ("fd00::1", &["[2001:db8::7]"], "2001:db8::7"),
        ] {
            let found = proxies(ForwardedBy::XForwardedFor)
                .client(connected.parse().unwrap(), &headers(&X_FORWARDED_FOR, lines));
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{connected} {lines:?}");
        }
    }

    #[test]
    fn the_standard_header_is_read_where_it_is_the_one() {
        for (line, client) in [
            ("for=203.0.113.9", "203.0.113.9"),
            (
                "for=198.51.100.7, For=\"203.0.113.9:80\";proto=https;by=10.0.0.1",
                "203.0.113.9",
            ),
            ("proto=https;for=\"[2001:db8::7]:80\"", "2001:db8::7"),
            ("for=unknown", "127.0.0.1"),
            ("for=_hidden", "127.0.0.1"),
            ("proto=https", "127.0.0.1"),
            // A client leaves a quote open; what the proxy adds is read all the same.
            ("for=\"198.51.100.7, for=203.0.113.9", "203.0.113.9"),
        ] {
            let said = headers(&header::FORWARDED, &[line]);
            let found = proxies(ForwardedBy::Forwarded).client("127.0.0.1".parse().unwrap(), &said);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{line}");
            let other = proxies(ForwardedBy::XForwardedFor).client("127.0.0.1".parse().unwrap(), &said);
            assert_eq!(other, "127.0.0.1".parse::<IpAddr>().unwrap(), "{line}");
        }
    }

    #[test]
    fn networks_are_read_and_compared_by_their_prefix() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("::/0", "2001:db8::7", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(
                network.contains(address.parse().unwrap()),
                inside,
                "{network:?} {address}"
            );
        }
        for bad in ["", "proxy", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "10.0.0.0/"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
