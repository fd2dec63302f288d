package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user that the broker runs as in the container, which is no user of the host. It is a
// number, so that a platform that refuses root can see that it is not root.
const user = 65532

// Places in the image.
const (
	program    = "/ledgerbus"
	dataFolder = "/data"
	// where the emulator's users mount their configuration
	configPlace = "/ServiceBus_Emulator/ConfigFiles/Config.json"
)

// environment configures the broker like the emulator's container: reachable from other containers,
// without TLS, with the well-known key. Outside the image none of it is the default. It is
// environment, not flags, so that users of the image can change it.
var environment = []string{
	"LEDGERBUS_DATA=" + dataFolder,
	"LEDGERBUS_LISTEN=0.0.0.0:5672,0.0.0.0:5300",
	"LEDGERBUS_INSECURE_NO_TLS=true",
	"LEDGERBUS_INSECURE_NO_AUTH=true",
	"LEDGERBUS_I_ACCEPT_THE_RISK=true", // 0.0.0.0 may be a public address
	"LEDGERBUS_ENTITIES_IF_PRESENT=" + configPlace,
	// as in docs/examples/ledgerbus.service, and Go's own value; an image cannot set a timer slack
	"GOGC=100",
}

// newImage makes the image of an architecture: the binary, the data directory and no other program.
func newImage(binary, arch string, from source) (v1.Image, error) {
	layer, err := newLayer(binary, from.created)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: from.created}, CreatedBy: "make image", Comment: "ledgerbus " + from.version},
	})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: from.created}
	file.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", user, user),
		Entrypoint:   []string{program},
		Cmd:          []string{"serve"},
		Env:          environment,
		ExposedPorts: map[string]struct{}{"5672/tcp": {}, "5300/tcp": {}},
		Volumes:      map[string]struct{}{dataFolder: {}},
		WorkingDir:   "/",
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test: []string{"CMD", program, "health", "--ready"}, Interval: 10 * time.Second, Timeout: 10 * time.Second, StartPeriod: 5 * time.Second, Retries: 3,
		},
		Labels: labels(from),
	}
	return mutate.ConfigFile(img, file)
}

// labels returns the labels that registries and scanners look for.
func labels(from source) map[string]string {
	all := map[string]string{
		"org.opencontainers.image.title":       "Ledgerbus",
		"org.opencontainers.image.description": "A durable message broker that Azure Service Bus SDKs connect to",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/ledgerbus/ledgerbus",
		"org.opencontainers.image.version":     from.version,
		"org.opencontainers.image.created":     from.created.Format(time.RFC3339),
	}
	if from.commit != "" {
		all["org.opencontainers.image.revision"] = from.commit
	}
	return all
}

// newLayer packs the file system. It sets owners, modes and times, so that nothing of the machine
// shows.
func newLayer(binary string, created time.Time) (v1.Layer, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, e := range []struct {
		name    string // a directory's ends with a slash
		mode    int64
		owner   int
		content []byte
	}{
		// for tools that copy a file there before the start
		{name: "ServiceBus_Emulator/", mode: 0o755},
		{name: "ServiceBus_Emulator/ConfigFiles/", mode: 0o755},
		{name: "data/", mode: 0o700, owner: user}, // a new volume takes owner and mode from here
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:\nledgerbus:x:%d:\n", user)},
		{name: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nledgerbus:x:%d:%d:ledgerbus:/:/sbin/nologin\n", user, user)},
		{name: "ledgerbus", mode: 0o755, content: content},
		{name: "tmp/", mode: 0o1777},
	} {
		header := &tar.Header{
			Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.content)), ModTime: created, Format: tar.FormatPAX, Typeflag: tar.TypeReg,
		}
		if e.content == nil {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// writeLayout writes the images as one OCI layout: an index in which a client finds the image of
// its architecture.
func writeLayout(dir string, architectures []string, images map[string]v1.Image) (v1.Hash, error) {
	if err := os.RemoveAll(dir); err != nil {
		return v1.Hash{}, err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: images[arch], Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "latest"})); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}
