package main

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// most is how large an image may be, packed and unpacked, bytes.
const most = 35_000_000

// built is one build for the architecture of this machine, shared by the tests. It goes away with
// them.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return "", err
	}
	return dir, build(dir)
})

func build(into string) error {
	return run(filepath.Join(into, "dist"), []string{runtime.GOARCH}, "", "ledgerbus")
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// artefacts are the results of a build.
func artefacts(t testing.TB, dir string, err error) (binary, archive string, img v1.Image) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "dist", "ledgerbus-linux-"+runtime.GOARCH)
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "dist", "oci"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	platforms, err := index.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = platforms.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	if p := manifest.Manifests[0].Platform; p.OS != "linux" || p.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %s", p)
	}
	if img, err = platforms.Image(manifest.Manifests[0].Digest); err != nil {
		t.Fatal(err)
	}
	return binary, binary + ".tar", img
}

// benchOf returns the load generator that is built with a broker.
func benchOf(broker string) string {
	return strings.Replace(broker, "ledgerbus-linux", "ledgerbench-linux", 1)
}

// Two builds of the same sources are the same, byte for byte.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds everything twice")
	}
	t.Parallel()
	dir, err := built()
	binary, archive, img := artefacts(t, dir, err)
	again := t.TempDir()
	binary2, archive2, img2 := artefacts(t, again, build(again))
	for _, files := range [][2]string{{binary, binary2}, {benchOf(binary), benchOf(binary2)}, {archive, archive2}} {
		first, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(files[1])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s differs from build to build", filepath.Base(files[0]))
		}
	}
	first, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if second, err := img2.Digest(); err != nil || first != second {
		t.Errorf("digests %s and %s, %v", first, second, err)
	}
}

// The binaries are static and stripped, and need nothing else of a machine.
func TestBinaries(t *testing.T) {
	t.Parallel()
	dir, err := built()
	binary, archive, _ := artefacts(t, dir, err)
	for _, file := range []string{binary, benchOf(binary)} {
		standsAlone(t, file)
	}
	for _, file := range []string{binary, archive} {
		if info, err := os.Stat(file); err != nil || info.Size() > most {
			t.Errorf("%s has %d bytes, %v; more than %d", filepath.Base(file), info.Size(), err, most)
		}
	}
}

// The binary of a release says which one.
func TestVersion(t *testing.T) {
	t.Parallel()
	from, err := sourceOf(".", "v9.8.7")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "ledgerbench")
	if err := buildBinary("ledgerbench", binary, runtime.GOARCH, from); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), binary, "version").Output(); err != nil || !strings.HasPrefix(string(out), "ledgerbench v9.8.7 ") {
		t.Errorf("%q, %v; want that it names v9.8.7", out, err)
	}
}

func standsAlone(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 {
		t.Errorf("the binary needs %v", libraries)
	}
	if f.Section(".symtab") != nil || f.Section(".debug_info") != nil || f.Section(".zdebug_info") != nil {
		t.Error("the binary is not stripped")
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte(here)) {
		t.Errorf("the binary names the directory in which it was built, %s", here)
	}
}

// What a platform reads from the image's configuration.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	dir, err := built()
	_, _, img := artefacts(t, dir, err)
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	from, err := sourceOf(".", "")
	if err != nil {
		t.Fatal(err)
	}
	c := file.Config
	if c.User != "65532:65532" {
		t.Errorf("it runs as %s", c.User)
	}
	if _, ok := c.Volumes["/data"]; !ok || len(c.Volumes) != 1 {
		t.Errorf("volumes %v", c.Volumes)
	}
	for _, port := range []string{"5672/tcp", "5300/tcp"} {
		if _, ok := c.ExposedPorts[port]; !ok {
			t.Errorf("ports %v lack %s", c.ExposedPorts, port)
		}
	}
	if got := strings.Join(c.Healthcheck.Test, " "); got != "CMD /ledgerbus health --ready" {
		t.Errorf("health check %q", got)
	}
	if got := c.Labels["org.opencontainers.image.revision"]; got != from.commit {
		t.Errorf("revision %q, want %q", got, from.commit)
	}
	if got := c.Labels["org.opencontainers.image.version"]; got != from.version {
		t.Errorf("version %q, want %q", got, from.version)
	}
	if !file.Created.Equal(from.created) {
		t.Errorf("created %s, want the time of the commit, %s", file.Created, from.created)
	}
	for _, variable := range c.Env {
		if !strings.HasPrefix(variable, "LEDGERBUS_") && variable != "GOGC=100" {
			t.Errorf("%s is in the environment", variable)
		}
	}
	if !slices.Contains(c.Env, "LEDGERBUS_LISTEN=0.0.0.0:5672,0.0.0.0:5300") {
		t.Errorf("environment %v", c.Env)
	}
}
