"""The network of sandboxes: what they reach, and what they do not.  The world is a network namespace of this machine."""
import subprocess

import api

WORLD, OTHER, HERE = "203.0.113.1", "203.0.113.9", "203.0.113.254"

WORLD_SETUP = f"""
set -e
ip netns add world
ip link add world type veth peer name eth0 netns world
ip addr add {HERE}/24 dev world
ip link set world up
ip route replace default via {WORLD}
ip -n world addr add {WORLD}/24 dev eth0
ip -n world addr add {OTHER}/24 dev eth0
ip -n world link set eth0 up
ip -n world link set lo up
"""


def make_world(here):
    """a sandbox reaches the world, and the world sees this machine's address"""
    subprocess.run(["sh", "-c", WORLD_SETUP], check=True)
    here.world = subprocess.Popen(["ip", "netns", "exec", "world", "python3", "-u", "-m", "http.server", "80"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True)
    box = here.server.create()
    api.until("the world answers", lambda: reaches(box, WORLD))
    box.kill()
    assert HERE in here.world.stderr.readline()


def reaches(box, address):
    return reached_of(box, [address]) == [address]


def reached_of(box, targets):
    """Those of the addresses with ports that answer; all are tried at the same time, since one that does not takes its time."""
    tries = [f"(curl -s -o /dev/null --connect-timeout 3 http://{target}/ && echo {target}) &" for target in targets]
    return box.run("\n".join([*tries, "wait"]))[1].split()


def closed(here):
    """without internet access nothing leaves"""
    box = here.server.create(allow_internet_access=False)
    assert not reaches(box, WORLD)
    box.kill()


def rules(here):
    """one address is allowed and all others are denied; one address is denied and all others are allowed"""
    some = here.server.create(network={"denyOut": ["0.0.0.0/0"], "allowOut": [OTHER]})
    assert reached_of(some, [OTHER, WORLD]) == [OTHER]
    some.kill()
    most = here.server.create(network={"denyOut": [OTHER + "/32"]})
    assert reached_of(most, [OTHER, WORLD]) == [WORLD]
    most.kill()


def host_is_closed(here):
    """neither this machine nor another sandbox can be reached"""
    box, other = here.server.create(), here.server.create()
    other.output("setsid python3 -m http.server 8000 >/dev/null 2>&1 </dev/null &")
    api.until("the other sandbox listens", lambda: other.preview(8000)[0] == 200)
    address = other.output("hostname -I").split()[0]
    api_port = here.server.at.port
    assert reached_of(box, [f"{WORLD}:80", f"{address}:8000", f"{HERE}:{api_port}", f"198.18.0.1:{api_port}"]) == [f"{WORLD}:80"]
    box.kill()
    other.kill()


TESTS = [make_world, closed, rules, host_is_closed]
