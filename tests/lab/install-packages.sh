#!/bin/sh
# Installs Debian packages that are missing: install-packages.sh [--required] PACKAGE...
#
# As root where there is apt-get it installs them. Elsewhere it names them on standard
# error and goes on, unless they are --required. Services of freshly installed packages
# (sshd, lxc-net) are not started: the tests start their own, on loopback.
set -eu

required=no
if [ "$1" = --required ]; then
    required=yes
    shift
fi

is_there() {
    if command -v dpkg-query >/dev/null; then
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] && return 0
    fi
    # Installed by other means, or another distribution: go by the program.
    case $1 in
        openssh-client) program=ssh ;;
        openssh-server) program=sshd ;;
        lxc) program=lxc-start ;;
        iproute2) program=ip ;;
        python3-venv) return 1 ;;
        *) program=$1 ;;
    esac
    PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" command -v "$program" >/dev/null
}

missing=
for package in "$@"; do
    is_there "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "missing packages:$missing" >&2
    if command -v apt-get >/dev/null; then
        echo "install them with: sudo apt-get install$missing" >&2
    fi
    [ $required = no ] || exit 1
    echo "going on without what needs them" >&2
    exit 0
fi

policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
fi

export DEBIAN_FRONTEND=noninteractive
apt() {
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 "$@" </dev/null >&2
}
# Mirrors stumble now and then: each is tried twice.
apt update || { sleep 5 && apt update; }
# Words on purpose: one package each.
apt install -y --no-install-recommends $missing \
    || { sleep 5 && apt install -y --no-install-recommends $missing; }
