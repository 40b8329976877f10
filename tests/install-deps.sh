#!/bin/sh
# Installs what is missing from Debian, by group; says nothing and takes no time when nothing is missing.
#
#   tests/install-deps.sh GROUP...
#     build      what compiles the programs, and the redis-server that --dev starts
#     test       what the unit and end-to-end tests drive
#     sanitize   clang 19, its runtime (sanitizers, libFuzzer)
#     lint       clang-format and clang-tidy 19
#     suite      what Redis's own tests run with
#     bench      the peers that the benchmark measures beside slotproxy, and valgrind
set -eu

packages=
commands=
for group in "$@"; do
  case $group in
    build) packages="$packages g++ make cmake ninja-build ccache pkg-config libhiredis-dev libuv1-dev
      libyaml-cpp-dev doctest-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libssl-dev
      redis-server redis-tools" ;;
    test) packages="$packages redis-server redis-tools python3 python3-redis"
      # Node.js may come from elsewhere than Debian: what counts is that the programs are there.
      commands="$commands node:nodejs npm:npm" ;;
    sanitize) packages="$packages clang-19 libclang-rt-19-dev" ;;
    lint) packages="$packages python3 clang-format-19 clang-tidy-19" ;;
    suite) packages="$packages python3 redis-server redis-tools tcl" ;;
    bench) packages="$packages python3 redis-server redis-tools nutcracker haproxy valgrind" ;;
    *) echo "install-deps.sh: no group \"$group\" (build test sanitize lint suite bench)" >&2; exit 2 ;;
  esac
done

optional=
for pair in $commands; do
  command -v "${pair%%:*}" >/dev/null 2>&1 || optional="$optional ${pair#*:}"
done

# shellcheck disable=SC2086
if ! command -v dpkg-query >/dev/null 2>&1; then
  echo "install-deps.sh: not a Debian system; please install what corresponds to:" $packages >&2
  exit 0
fi
missing=
# shellcheck disable=SC2086  # Lists of words.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' $packages 2>/dev/null | sed -n 's/^installed //p' || true)
for package in $packages; do
  printf '%s\n' "$installed" | grep -qxF "$package" || missing="$missing $package"
done
[ -n "$missing$optional" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    [ -n "$missing" ] || exit 0
    echo "install-deps.sh: as root, please:  apt-get install$missing" >&2
    exit 1
  fi
  as_root=sudo
fi

# The packages of redis-server, nutcracker and haproxy would start services on their usual ports: they are wanted as
# programs only. Without a policy of the machine's own, one that says no stands for the time of the installation.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap '$as_root rm -f $policy' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
  $as_root chmod 755 $policy
fi
# shellcheck disable=SC2086
apt() {
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" \
    </dev/null >&2
}
echo "installing from Debian:$missing$optional" >&2
apt update
# shellcheck disable=SC2086
[ -z "$missing" ] || apt install -y --no-install-recommends $missing
# shellcheck disable=SC2086
if [ -n "$optional" ] && ! apt install -y --no-install-recommends $optional; then
  echo "install-deps.sh:$optional could not be installed; the tests that need it will be skipped by name" >&2
fi
if command -v systemctl >/dev/null 2>&1; then
  for service in redis-server nutcracker haproxy; do
    case " $missing " in *" $service "*) $as_root systemctl disable "$service" >/dev/null 2>&1 || true ;; esac
  done
fi
