package torture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestFencedDevice (F9, S4) is TestFence with a partition on a file system of its own, whose device
// fails under load: every write and sync of it is an error, what was not synced is gone, and its
// journal with it. The broker fences the partition by itself. Its files are closed then, for the
// file system is unmounted and mounted again while the broker runs, and the partition is restarted.
func TestFencedDevice(t *testing.T) {
	f := newFence(t)
	d := f.ownDevice()
	f.start()
	f.run(*rounds, func() (mend func()) { return f.fail(d) })
	f.close()
}

// TestFencedPartitionedDevice (F9, S4) is TestFencedPartitioned with the device of TestFencedDevice
// under one of four logs, and clients that do nothing twice by themselves. That device says now and
// then that it has synced what is gone when it is mounted again; the broker knows better and
// refuses the log (docs/decisions/0069). That is counted, and the rounds that are left go on with
// another directory.
func TestFencedPartitionedDevice(t *testing.T) {
	lies := 0
	for left := *rounds; left > 0 && !t.Failed(); {
		f := newFencedPartitioned(t)
		f.single = true
		d := f.ownDevice()
		f.start()
		if left -= f.run(left, func() (mend func()) { return f.fail(d) }); f.lied {
			lies++
			if err := f.process.Kill(); err != nil {
				t.Error(err)
			}
			continue
		}
		f.closeKeyless()
		f.close()
	}
	t.Logf("of %d times the device has lied %d times", *rounds, lies)
}

// fail has the device fail, and waits for the broker to fence the partition.
func (f *fence) fail(d *device) (mend func()) {
	d.fail()
	f.until("fenced")
	f.busy()
	return d.mend
}

// ownDevice gives the partition that is fenced a file system of its own until the test ends.
func (f *fence) ownDevice() *device {
	t := f.T
	t.Helper()
	d := &device{T: t, image: filepath.Join(filepath.Dir(f.data), "image"), at: filepath.Join(f.data, "partitions", fmt.Sprintf("%02d", awayPartition))}
	if err := d.replace(); err != nil {
		t.Skipf("no file system of its own can be mounted here, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(d.at, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d
}

// until waits for a state of the partition.
func (f *fence) until(state string) {
	f.Helper()
	began := time.Now()
	for {
		all, err := f.admin.Partitions(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		if all[awayPartition].State == state {
			return
		}
		if time.Since(began) > 5*time.Second {
			f.Fatalf("for 5 seconds it is not %s: %+v", state, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// device is a file system over one directory.
type device struct {
	*testing.T
	image, at string
}

// replace puts the file system in the place of a directory, with what is in that.
func (d *device) replace() error {
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(d.image, 4<<30); err != nil {
		return err
	}
	was := d.at + ".was"
	for _, cmd := range [][]string{{"mkfs.ext4", "-q", d.image}, {"cp", "-a", d.at, was}, {"mount", "-o", "loop", d.image, d.at}} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			_ = os.RemoveAll(was)
			return fmt.Errorf("%s: %w: %s", cmd[0], err, out)
		}
	}
	script := `rmdir "$2/lost+found" && cp -a "$1/." "$2" && rm -r "$1" && sync -f "$2"`
	if out, err := exec.Command("sh", "-c", script, "sh", was, d.at).CombinedOutput(); err != nil {
		d.Fatalf("%v: %s", err, out)
	}
	return nil
}

// shutDown is EXT4_IOC_SHUTDOWN, without anything being written before.
const (
	shutDown      = 0x8004587d
	nothingLogged = uint32(2)
)

// fail ends the file system as a device that is gone does. It does without the device mapper, which
// few kernels of test machines have.
func (d *device) fail() {
	dir, err := os.Open(d.at)
	if err != nil {
		d.Fatal(err)
	}
	defer dir.Close()
	flags := nothingLogged
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), shutDown, uintptr(unsafe.Pointer(&flags))); e != 0 {
		d.Fatalf("the file system cannot be shut down: %v", e)
	}
}

// mend mounts the file system again, as soon as nobody has a file of it open.
func (d *device) mend() {
	began := time.Now()
	err := unix.Unmount(d.at, 0)
	for err == unix.EBUSY && time.Since(began) < 5*time.Second {
		time.Sleep(10 * time.Millisecond)
		err = unix.Unmount(d.at, 0)
	}
	if err != nil {
		holders, _ := exec.Command("sh", "-c", `ls -l /proc/*/fd 2>/dev/null | grep "$1"`, "sh", d.at).Output()
		d.Fatalf("after %v the file system of a fenced partition cannot be unmounted: %v\n%s", time.Since(began), err, holders)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.at).CombinedOutput(); err != nil {
		d.Fatalf("mount: %v: %s", err, strings.TrimSpace(string(out)))
	}
}
