#!/busybox sh
# The first process of the guest: loads the modules, puts the root together, and runs the job in it.
# The root is the host's, read-only over 9p, under a layer of RAM. Whatever goes wrong is said on the kernel's
# console, which the host shows when there is no exit status.

b() { /busybox "$@"; }
die() {
  echo "longarm-vm: $*"
  b reboot -f
}
share() {
  b mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" || die "no 9p share $1"
}

b mount -t devtmpfs none /dev && b mount -t proc none /proc && b mount -t sysfs none /sys ||
  die "no /dev, /proc or /sys"
for module in /modules/*; do
  b insmod "$module" || die "the module $module does not load"
done

share root /lower ro,cache=loose
b mount -t tmpfs -o size=50% none /upper && b mkdir /upper/files /upper/work || die "no room for the layer"
b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /new ||
  die "no layer over the root"
for dir in dev proc sys; do
  b mkdir -p /new/$dir
  b mount --move /$dir /new/$dir || die "/$dir cannot be moved"
done
b mkdir -p /new/run /new/dev/shm /new/dev/pts
b mount -t tmpfs none /new/run
b mount -t tmpfs -o size=50%,mode=1777 none /new/dev/shm
b mount -t devpts none /new/dev/pts
b ln -s /proc/self/fd /new/dev/fd
for i in 0:stdin 1:stdout 2:stderr; do
  b ln -s "/proc/self/fd/${i%:*}" "/new/dev/${i#*:}"
done
b mkdir -p /new/run/vm
share vm /new/run/vm cache=none
if [ -s /new/run/vm/writable ]; then
  writable=$(b cat /new/run/vm/writable)
  b mkdir -p "/new$writable"
  share writable "/new$writable" cache=none
fi

b chroot /new /bin/sh /run/vm/wire "$(b cat /new/run/vm/devices)" || die "the wire cannot be set up"

# The job's output goes through two consoles of their own. They stay open here: a terminal that is closed
# by its last user forgets its settings.
exec 3<>/new/dev/hvc0 4<>/new/dev/hvc1 || die "no consoles for the output"
b stty raw -echo <&3
b stty raw -echo <&4
echo yes > /new/run/vm/started
b chroot /new /bin/sh /run/vm/job < /new/dev/null >&3 2>&4 3>&- 4>&-
status=$?
# Setting a terminal waits until all its output has been taken.
b stty raw <&3
b stty raw <&4
echo "$status" > /new/run/vm/status
b sync
b reboot -f
