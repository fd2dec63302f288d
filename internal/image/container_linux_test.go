package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// container is an image's root file system, unpacked, and the programs in it: like a container
// engine, without isolation of network and processes.
type container struct {
	t      testing.TB
	root   string // directory
	config v1.Config
	user   uint32
	listen []string // HOST:PORT, once they are known

	cmd    *exec.Cmd // nil while stopped
	exited chan error
	stderr string // file
}

func newContainer(t testing.TB) *container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("unpacking with the image's owners, and chroot, need root")
	}
	dir, err := built()
	_, _, img := artefacts(t, dir, err)
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, root: t.TempDir(), config: file.Config, stderr: filepath.Join(t.TempDir(), "stderr")}
	id, _, _ := strings.Cut(file.Config.User, ":")
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		t.Fatalf("user %q: %v", file.Config.User, err)
	}
	c.user = uint32(n)
	c.unpack(img)
	t.Cleanup(func() {
		if c.cmd != nil {
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
		if text, err := os.ReadFile(c.stderr); err == nil && t.Failed() {
			t.Logf("standard error:\n%s", text)
		}
	})
	return c
}

func (c *container) unpack(img v1.Image) {
	c.t.Helper()
	packed := mutate.Extract(img)
	defer packed.Close()
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.t.Fatal(err)
		}
		path := filepath.Join(c.root, h.Name)
		mode := h.FileInfo().Mode().Perm()
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(path, mode)
		} else {
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, content, mode)
			}
		}
		if err := errors.Join(err, os.Chown(path, h.Uid, h.Gid), os.Chmod(path, mode)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// command returns a command of the container, with its environment and changes to that.
func (c *container) command(args []string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", append(slices.Clone(c.config.Env), env...)
	if c.listen != nil {
		cmd.Env = append(cmd.Env, "LEDGERBUS_LISTEN="+strings.Join(c.listen, ","))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
	return cmd
}

// start runs the container until it says that it is up, on ports that are free at the first start,
// and says how long that took.
func (c *container) start(env ...string) time.Duration {
	c.t.Helper()
	if c.listen == nil {
		env = append(env, "LEDGERBUS_LISTEN=0.0.0.0:0,0.0.0.0:0")
	}
	c.cmd = c.command(slices.Concat(c.config.Entrypoint, c.config.Cmd), env...)
	stderr, err := os.OpenFile(c.stderr, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer stderr.Close()
	c.cmd.Stderr = stderr
	stdout, write, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd.Stdout = write
	began := time.Now()
	if err := errors.Join(c.cmd.Start(), write.Close()); err != nil {
		c.t.Fatal(err)
	}
	c.exited = make(chan error, 1)
	go func() { c.exited <- c.cmd.Wait() }()
	var listening []string
	up := 0
	for lines := bufio.NewScanner(stdout); up == 0 && lines.Scan(); {
		if _, address, found := strings.Cut(lines.Text(), "listening on"); found {
			listening = append(listening, "0.0.0.0"+address[strings.LastIndex(address, ":"):])
		}
		if lines.Text() == "Emulator Service is Successfully Up!" {
			up++
		}
	}
	took := time.Since(began)
	if up == 0 {
		c.t.Fatalf("it ended before it was up: %v", <-c.exited)
	}
	_ = stdout.Close()
	c.listen = listening
	return took
}

func (c *container) port(i int) string {
	_, port, _ := strings.Cut(c.listen[i], ":")
	return port
}

// stop ends it as an engine does.
func (c *container) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	if err := <-c.exited; err != nil {
		c.t.Errorf("after SIGTERM: %v", err)
	}
	c.cmd = nil
}

// health runs the image's health check.
func (c *container) health() (code int, output string) {
	c.t.Helper()
	cmd := c.command(c.config.Healthcheck.Test[1:])
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		c.t.Fatalf("%v; want that it ran", err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// client is one of the SDK, with the emulator's connection string.
func (c *container) client() *azservicebus.Client {
	c.t.Helper()
	client, err := azservicebus.NewClientFromConnectionString(fmt.Sprintf("Endpoint=sb://localhost:%s;SharedAccessKeyName=RootManageSharedAccessKey;"+
		"SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;", c.port(0)), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// mount puts a file where the emulator's users mount theirs, owned by another user, as a mounted
// one is.
func (c *container) mount(config string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.root, configPlace), []byte(config), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// What the emulator's users do: mount the file, set the variables, wait for the line, connect. What
// they cannot do there: find their messages again after a restart.
func TestContainer(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.mount(`{"UserConfig":{"Namespaces":[{"Name":"sbemulatorns","Queues":[{"Name":"mounted"}],"Topics":[]}],"Logging":{"Type":"File"}}}`)
	emulators := []string{"ACCEPT_EULA=Y", "SQL_SERVER=sql", "MSSQL_SA_PASSWORD=Passw0rd!", "SQL_WAIT_INTERVAL=0"}
	c.start(emulators...)

	if code, out := c.health(); code != 0 || !strings.Contains(out, `"ready"`) {
		t.Errorf("health check: exit code %d, %s", code, out)
	}
	response, err := http.Get("http://localhost:" + c.port(1) + "/health")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || response.StatusCode != 200 || string(body) != `{"status":"healthy","message":"Service is healthy."}` {
		t.Errorf("/health: %d %s, %v", response.StatusCode, body, err)
	}

	sender, err := c.client().NewSender("mounted", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("kept")}, nil); err != nil {
		t.Fatal(err)
	}
	c.stop()
	if code, out := c.health(); code != 1 {
		t.Errorf("health check of what is stopped: exit code %d, %s", code, out)
	}

	c.start(emulators...)
	receiver, err := c.client().NewReceiverForQueue("mounted", nil)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := receiver.ReceiveMessages(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(messages[0].Body) != "kept" {
		t.Errorf("received %q", messages[0].Body)
	}
	if err := receiver.CompleteMessage(t.Context(), messages[0], nil); err != nil {
		t.Error(err)
	}
	c.stop()

	text, err := os.ReadFile(c.stderr)
	if err != nil {
		t.Fatal(err)
	}
	for _, loud := range []string{"are served without TLS", "accept the emulator's well-known key"} {
		if !strings.Contains(string(text), `level=WARN msg="insecure: addresses other than loopback `+loud) {
			t.Errorf("the log does not say %q", loud)
		}
	}
	if strings.Contains(string(text), "open to other users") {
		t.Error("the data directory is open to other users")
	}
}

// MA-155: without a file there is the emulator's sample, as the documentation of Testcontainers for
// .NET uses it. Another file or an inline one goes before a mounted one.
func TestContainerEntities(t *testing.T) {
	t.Parallel()
	c := newContainer(t)
	c.start()
	c.hello("queue.1")
	c.stop()
	c.mount(`{"Queues":[{"Name":"mounted"}]}`)
	c.start("LEDGERBUS_ENTITIES_JSON={\"Queues\":[{\"Name\":\"named\"}]}")
	sender, err := c.client().NewSender("mounted", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("x")}, nil); err == nil {
		t.Error("the mounted file was read although another was named")
	}
	if sender, err = c.client().NewSender("named", nil); err != nil {
		t.Fatal(err)
	}
	if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: []byte("x")}, nil); err != nil {
		t.Error(err)
	}
	c.stop()
}

// hello sends a message to a queue and receives it.
func (c *container) hello(queue string) {
	c.t.Helper()
	client := c.client()
	sender, err := client.NewSender(queue, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	receiver, err := client.NewReceiverForQueue(queue, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := sender.SendMessage(context.Background(), &azservicebus.Message{Body: []byte("hello")}, nil); err != nil {
		c.t.Fatal(err)
	}
	messages, err := receiver.ReceiveMessages(context.Background(), 1, nil)
	if err != nil || string(messages[0].Body) != "hello" {
		c.t.Fatalf("received %v, %v", messages, err)
	}
}

// BenchmarkReady is the time from the start of the process to the line that tools wait for, on an
// empty data directory.
func BenchmarkReady(b *testing.B) {
	for range b.N {
		b.StopTimer()
		c := newContainer(b)
		b.StartTimer()
		c.start()
		b.StopTimer()
		c.stop()
	}
}
