#!/bin/bash
# Installs what building and testing need on Debian 12 (bookworm). Safe to run again: it asks dpkg
# first and does nothing when all is there. Needs root or sudo only when something is missing.
# The CUDA toolkit is not among them: it is not in Debian's main, and the CPU build has no use for it.
set -euo pipefail

packages=(
  # build
  build-essential g++ cmake ninja-build ccache mold pkg-config git
  # libraries
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev
  prometheus-cpp-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev libonig-dev
  libdnnl-dev libboost-dev libhwy-dev
  # tests
  libgtest-dev libgmock-dev libbenchmark-dev prometheus clang-format-14 clang-format clang-tidy
  python3 python3-venv python3-pip python3-jinja2 python3-jsonschema
  # fetching the model
  unzip curl ca-certificates
)

missing=()
declare -A installed=()
while read -r status package; do
  [[ $status == ii* ]] && installed[${package%%:*}]=1
done < <(dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n')
for package in "${packages[@]}"; do
  [[ -n ${installed[$package]:-} ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "install_packages: all ${#packages[@]} packages are there"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "install_packages: missing ${missing[*]}; run as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi

# Only promtool of the package prometheus is used. Its service is masked before it is unpacked, so that
# no daemon starts now or at boot; a Prometheus that is already here is left as it is.
if [[ " ${missing[*]} " == *" prometheus "* && ! -e /etc/systemd/system/prometheus.service ]]; then
  "${as_root[@]}" mkdir -p /etc/systemd/system
  "${as_root[@]}" ln -s /dev/null /etc/systemd/system/prometheus.service
fi
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  # Exit status 101 forbids a package to start a service while this script runs.
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod +x "$policy"
  trap '"${as_root[@]}" rm -f "$policy"' EXIT
fi

echo "install_packages: installing ${missing[*]}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o Dpkg::Use-Pty=0)
"${apt[@]}" update </dev/null
# Recommended packages would pull in another Boost and remove this one.
"${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null
