package broker

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ledgerbus/ledgerbus/cmd/settings"
	"github.com/ledgerbus/ledgerbus/protocol/listen"
)

// lookAgain is the minimum time between two checks of the files by handshakes.
const lookAgain = 2 * time.Second

// certificates is the operator's certificate. It is read again when its files change
// (reliability.md 7.2). If the files are unreadable or do not match, the previous certificate stays
// in use.
type certificates struct {
	// set once in newCertificates
	certificateFile, keyFile string

	mu      sync.Mutex // guards the fields below
	current *tls.Certificate
	looked  time.Time
	seen    [2]stamp // state of the files when they were last read, successfully or not
}

// tlsFolder is the folder of generated certificates in the data directory.
const tlsFolder = "tls"

// Authority returns the certificate, in PEM, of the development authority in a data directory,
// which clients must trust. Before the first start in development mode it returns [fs.ErrNotExist].
// A broker may be running.
func Authority(data string) ([]byte, error) {
	file := filepath.Join(data, tlsFolder, listen.AuthorityFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if block, rest := pem.Decode(text); block == nil || block.Type != "CERTIFICATE" || len(rest) > 0 {
		return nil, fmt.Errorf("%s does not contain the generated certificate", file)
	}
	return text, nil
}

// A stamp is the metadata that changes when a file is written.
type stamp struct {
	modified time.Time
	size     int64
}

// newCertificates reads the certificate for the first time.
func newCertificates(certificateFile, keyFile string) (*certificates, error) {
	c := &certificates{certificateFile: certificateFile, keyFile: keyFile}
	c.looked, c.seen = time.Now(), c.stamps()
	return c, c.load()
}

// loadCertificates reads the operator's certificate. A certificate that cannot be loaded is a
// problem of the settings.
func (s *Server) loadCertificates() error {
	t := s.settings.TLS
	if t.From != settings.TLSFiles {
		return nil
	}
	var err error
	if s.certificates, err = newCertificates(t.CertificateFile, t.KeyFile); err != nil {
		return settings.Problems{{Where: "tls", Text: err.Error()}}
	}
	s.tls = &tls.Config{GetCertificate: s.certificates.forHandshake, MinVersion: tls.VersionTLS12}
	return nil
}

// generateCertificate creates or reads the certificate in the data directory. The caller must hold
// the lock of the directory.
func (s *Server) generateCertificate() error {
	if s.settings.TLS.From != settings.TLSGenerated {
		return nil
	}
	cert, trust, err := listen.Generated(filepath.Join(s.settings.Storage.Data, tlsFolder), s.hosts(), time.Now())
	if err != nil {
		return settings.Problems{{Where: "tls", Text: err.Error()}}
	}
	s.trust, s.tls = trust, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	return nil
}

// forHandshake returns the certificate for a handshake.
func (c *certificates) forHandshake(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookAgain {
		c.looked = now
		// taken before the files are read: a change after that is seen next time
		if seen := c.stamps(); seen != c.seen {
			c.seen = seen
			if err := c.load(); err != nil {
				slog.Error("new certificate unusable; the previous one stays in use", "error", err)
			}
		}
	}
	return c.current, nil
}

// reload reads the files even if they look unchanged.
func (c *certificates) reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked, c.seen = time.Now(), c.stamps()
	return c.load()
}

// stamps returns the stamps of the files. A file whose metadata cannot be read has the zero stamp.
func (c *certificates) stamps() (seen [2]stamp) {
	for i, name := range [...]string{c.certificateFile, c.keyFile} {
		if info, err := os.Stat(name); err == nil {
			seen[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return seen
}

// load reads the pair. The caller holds mu or has exclusive access.
func (c *certificates) load() error {
	pair, err := tls.LoadX509KeyPair(c.certificateFile, c.keyFile)
	if err == nil {
		err = settings.CheckPrivate(c.keyFile)
	}
	if err != nil {
		return fmt.Errorf("certificate %s, key %s: %w", c.certificateFile, c.keyFile, err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		slog.Warn("certificate expired", "file", c.certificateFile, "end", end)
	}
	if c.current != nil {
		slog.Info("certificate read", "file", c.certificateFile, "end", pair.Leaf.NotAfter)
	}
	c.current = &pair
	return nil
}
