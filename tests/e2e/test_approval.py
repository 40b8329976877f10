"""Who may start a plan: one person, or two with credentials of their own."""
import json
import os
import subprocess

from harness import plans, processes
from harness.check import Skip, has, same
from harness.shop import as_json
from harness.tests import test

GOAL = ("plan", "propose", "--move", "0-99:inv-vlc")


def admin_over_tcp(fresh):
    """A shop with an admin port of two users, and how each of them runs slotctl."""
    port = processes.free_port()
    shop = fresh(
        config={
            "approval": "two_person",
            "rebalance": {"grace": "300ms"},
            "listen": {"admin": "127.0.0.1:%d" % port, "admin_users": ["ana:of-ana", "eva:of-eva"]},
        }
    )
    shop.admin = "127.0.0.1:%d" % port

    def slotctl(password, *words):
        env = dict(os.environ, SLOTPROXY_ADMIN_PASSWORD=password)
        return shop.slotctl(*words, env=env)

    return shop, slotctl


def approval(plan):
    return ("plan", "approve", str(plan["id"]), "--digest", plan["digest"])


@test(seconds=60)
def over_tcp_persons_are_told_apart_by_the_password(fresh):
    _, slotctl = admin_over_tcp(fresh)
    plan = as_json(slotctl("of-ana", *GOAL, "--by", "somebody", "--json"))
    for name in ("ana", "eva", "somebody else"):
        refused = slotctl("of-ana", *approval(plan), "--by", name)
        same(refused.returncode, 1, "an approval by the same person as %s" % name)
        has(refused.stderr, "proposed by admin user ana too", "two_person", "listen.admin_users")
    same(as_json(slotctl("of-ana", "plan", "show", "1", "--json"))["state"], "proposed")
    approved = slotctl("of-eva", *approval(plan), "--by", "somebody")
    same(approved.returncode, 0, approved.stderr)
    same(slotctl("of-ana", "plan", "wait", "1", "--timeout", "20").returncode, 0)
    entries = as_json(slotctl("of-ana", "plan", "history", "1", "--json"))["entries"]
    by_people = [(e["what"].split(":")[0], e["peer"].split(" as ")[-1]) for e in entries if e["peer"]]
    same(by_people[0], ("proposed", "ana"))
    same(by_people[1], ("approval refused", "ana"))
    same(by_people[-1], ("approved", "eva"))
    same(slotctl("of-nobody", "plan", "list").returncode, 1, "a wrong password")
    # The way back is a proposal too, of who asks for it.
    back = as_json(slotctl("of-eva", "plan", "revert", "1", "--json"))
    has(slotctl("of-eva", *approval(back)).stderr, "proposed by admin user eva too")


@test(seconds=60)
def at_the_socket_persons_are_told_apart_by_their_uid(fresh):
    shop = fresh(config={"approval": "two_person", "rebalance": {"grace": "300ms"}})
    plan = plans.propose(shop, "--move", "0-99:inv-vlc", "--by", "ana")
    words = ("PLAN", "APPROVE", plan["id"], "--digest", plan["digest"], "--by", "eva")
    has(plans.refusal(shop, *words), "proposed by uid %d too" % os.getuid(), "another user")
    # What a changed file makes the system propose is of whoever had it read.
    plans.add_node(shop, "inv-tar")
    plans.ask(shop, "RELOAD")
    added = plans.show(shop, 2)
    same(added["proposed_by"], "system")
    has(
        plans.refusal(shop, "PLAN", "APPROVE", 2, "--digest", added["digest"]),
        "proposed by uid %d too" % os.getuid(),
    )
    if os.getuid() != 0:
        raise Skip("only root can connect as another user")
    os.chmod(shop.admin, 0o666)
    for folder in (os.path.dirname(shop.admin), shop.folder):
        os.chmod(folder, 0o755)
    line = " ".join(map(str, words)) + "\r\n"
    got = subprocess.run(
        [
            "/usr/bin/python3",
            "-c",
            "import socket, sys\n"
            "s = socket.socket(socket.AF_UNIX)\n"
            "s.connect(sys.argv[1])\n"
            "s.sendall(sys.argv[2].encode())\n"
            "print(s.recv(65536).decode())",
            shop.admin,
            line,
        ],
        user=65534,
        capture_output=True,
        text=True,
        timeout=20,
    )
    has(got.stdout, '"state":"', what="what another user is answered: " + got.stderr)
    same(plans.wait(shop, plan, *plans.ENDED)["state"], "done")
    peers = [e["peer"] for e in plans.ask(shop, "PLAN", "HISTORY", 1)["entries"]]
    has(json.dumps(peers), "uid 65534")


@test
def one_person_is_enough_unless_two_are_wanted(fresh):
    shop = fresh(config={"rebalance": {"grace": "300ms"}})
    plan = plans.propose(shop, "--move", "0-99:inv-vlc")
    shop.config["approval"] = "two_person"
    shop.write_config()
    has("\n".join(plans.ask(shop, "RELOAD")["notes"]), "approval changed")
    has(
        plans.refusal(shop, "PLAN", "APPROVE", 1, "--digest", plan["digest"]),
        "wants somebody else",
    )
    shop.config["approval"] = "one_person"
    shop.write_config()
    plans.ask(shop, "RELOAD")
    plans.approve(shop, plan)
