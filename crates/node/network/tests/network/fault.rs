//! The wire fails and heals.

use std::net::Ipv4Addr;

use crate::ground::{Cell, Ground, Net, eventually, nft, run};

fn two_nodes() -> (Ground, Net, [Cell; 2]) {
    let ground = Ground::new(2);
    let net = ground.net(1);
    let cells = [ground.cell(&net, 2), ground.cell(&net, 3)];
    ground.tell(&[(&net, &[(&cells[0], 0), (&cells[1], 1)])]);
    for (cell, node) in cells.iter().zip(&ground.nodes) {
        node.attach(cell, &net);
    }
    assert!(cells[0].pings(cells[1].address));
    (ground, net, cells)
}

#[test]
fn a_wire_that_is_cut_and_joined_again_carries_again() {
    let (ground, _, [a, b]) = two_nodes();
    run(&ground.wire, "ip link set p2 down");
    assert!(a.misses(b.address));
    run(&ground.wire, "ip link set p2 up");
    eventually("they reach each other again", || a.pings(b.address) && b.pings(a.address));
}

#[test]
fn a_wire_that_carries_one_way_only_carries_both_when_it_is_healed() {
    let (ground, _, [a, b]) = two_nodes();
    nft(
        &ground.wire,
        "table bridge fault { chain one_way { type filter hook forward priority 0; iifname \"p1\" oifname \"p2\" drop; }; }",
    );
    assert!(a.misses(b.address) && b.misses(a.address));
    nft(&ground.wire, "delete table bridge fault");
    eventually("they reach each other again", || a.pings(b.address) && b.pings(a.address));
}

#[test]
fn a_wire_that_loses_every_tenth_packet_loses_no_connection() {
    let (ground, _, [a, b]) = two_nodes();
    nft(
        &ground.wire,
        "table bridge fault { chain loss { type filter hook forward priority 0; numgen random mod 100 < 10 drop; }; }",
    );
    let listener = crate::ground::listen(&b.path(), 9000);
    let (from, to) = (a.path(), b.address);
    let sender = std::thread::spawn(move || send(&from, to));
    let (mut stream, _) = listener.accept().unwrap();
    let came = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    sender.join().unwrap();
    assert_eq!(came, 200_000);
    nft(&ground.wire, "delete table bridge fault");
    eventually("nothing is lost any more", || {
        run(&a.path(), &format!("ping -c 20 -i 0.01 -W 1 {}", b.address)).contains(" 0% packet loss")
    });
}

fn send(from: &std::path::Path, to: Ipv4Addr) {
    use std::io::Write as _;
    let mut stream = crate::ground::inside(from, || std::net::TcpStream::connect((to, 9000)).unwrap());
    stream.write_all(&[7; 200_000]).unwrap();
}
