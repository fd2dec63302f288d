package program

import (
	"crypto/x509"
	"sync"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// TrustRoots makes TLS use the root certificates in the binary if the machine has none, as in the
// container image. Parsing them takes more than a millisecond, a third of the start of a process,
// so only programs that may connect to others over TLS call it.
var TrustRoots = sync.OnceFunc(func() {
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			panic(err) // they are part of the program
		}
		if root.Constraint != nil {
			pool.AddCertWithConstraint(cert, root.Constraint)
		} else {
			pool.AddCert(cert)
		}
	}
	x509.SetFallbackRoots(pool)
})
