package listen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ledgerbus/ledgerbus/internal/private"
)

// AuthorityFile is the name of the authority's certificate, which clients need, in the folder of
// generated certificates.
const AuthorityFile = "ca.pem"

// File names in the folder of generated certificates. A key is in one file with its certificate, so
// that no crash can separate them.
const (
	signerFile = "ca-with-key.pem"
	serverFile = "server-with-key.pem"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	serverLife    = 397 * 24 * time.Hour // accepted by all clients
	renewBefore   = 30 * 24 * time.Hour
)

// Generated returns a certificate for the host names and addresses, and the file with the
// certificate of the development authority that signed it, which clients have to trust. Both are
// kept in the folder. They are made when they are missing or about to expire, and the server's also
// when it lacks a host. A file that exists and cannot be read is an error. A key file that other
// users may read is made private again, with a warning (reliability.md S32).
func Generated(folder string, hosts []string, now time.Time) (cert tls.Certificate, authority string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return cert, "", err
	}
	if err := os.Chmod(folder, 0o700); err != nil { // whatever the umask is
		return cert, "", err
	}
	signer, err := loadOrMake(filepath.Join(folder, signerFile), func(c *x509.Certificate) bool { return valid(c, now) },
		func() ([]byte, error) { return newAuthority(now) })
	if err != nil {
		return cert, "", err
	}
	authority = filepath.Join(folder, AuthorityFile)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signer.Leaf.Raw})
	if there, err := os.ReadFile(authority); err != nil || !bytes.Equal(there, public) {
		if err := replace(authority, public); err != nil {
			return cert, "", err
		}
	}
	cert, err = loadOrMake(filepath.Join(folder, serverFile), func(c *x509.Certificate) bool {
		for _, host := range hosts {
			if c.VerifyHostname(host) != nil {
				return false
			}
		}
		return valid(c, now) && c.CheckSignatureFrom(signer.Leaf) == nil
	}, func() ([]byte, error) { return newServer(signer, hosts, now) })
	return cert, authority, err
}

func valid(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotBefore) && now.Add(renewBefore).Before(c.NotAfter)
}

// loadOrMake reads a certificate with its key, or makes a new one if none is valid.
func loadOrMake(file string, good func(*x509.Certificate) bool, make func() ([]byte, error)) (tls.Certificate, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		makePrivate(file)
		cert, err := tls.X509KeyPair(text, text)
		if err != nil {
			return cert, fmt.Errorf("%s: %w; remove the file so that a new one is made", file, err)
		}
		if good(cert.Leaf) {
			return cert, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, err
	}
	if text, err = make(); err != nil {
		return tls.Certificate{}, err
	}
	if err := replace(file, text); err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(text, text)
}

// makePrivate makes a key file readable by its owner only. Where that is not possible, such as on a
// volume with one mode for all files, it warns at every start and the broker serves all the same.
func makePrivate(file string) {
	wide, err := private.Narrow(file)
	mode := fmt.Sprintf("%04o", wide)
	switch {
	case err != nil:
		slog.Warn("key file is open to other users and its mode could not be changed; make it 0600", "path", file, "mode", mode, "error", err)
	case wide != 0:
		slog.Warn("key file was open to other users; its mode is 0600 now. If they may have read it, remove it and restart the broker to make a new one",
			"path", file, "mode", mode)
	}
}

func newAuthority(now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Ledgerbus"}, CommonName: "Ledgerbus development authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	return signCertificate(template, template, key, key)
}

func newServer(signer tls.Certificate, hosts []string, now time.Time) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{Organization: []string{"Ledgerbus"}, CommonName: "Ledgerbus development server"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	signerKey, ok := signer.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the authority's key has the unsupported type %T", signer.PrivateKey)
	}
	return signCertificate(template, signer.Leaf, key, signerKey)
}

// signCertificate makes a certificate and returns it with its key, in PEM.
func signCertificate(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})...), nil
}

// replace writes a file that only its owner can read. After a crash the file is either complete or
// unchanged.
func replace(file string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".new") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
