package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"regexp"
	"testing"
	"time"
)

// An Authority signs certificates that only its own Pool trusts.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	a.cert, a.key = certify(t, nil, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "redistest"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	return a
}

// Pool returns a pool that contains this authority only.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Issue returns a certificate for a server on loopback, or for a client.
func (a *Authority) Issue(t testing.TB) tls.Certificate {
	t.Helper()
	cert, key := certify(t, a, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "loopback"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// certify signs the certificate with a, or with its own key if a is nil.
func certify(t testing.TB, a *Authority, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// withoutTLS matches the error of a server that was built without TLS, up to 7.0 and later.
var withoutTLS = regexp.MustCompile("Bad directive|connection type tls")

// TLS starts one redis-server that also speaks TLS, at [Server.TLSAddr], with a certificate
// of the authority. There it accepts only clients with a certificate of the same authority.
func TLS(t testing.TB, a *Authority) *Server {
	t.Helper()
	cert := a.Issue(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	lay := func(i installation, dir string, ports []int) *Server {
		conf := fmt.Sprintf("tls-port %d\ntls-cert-file server.crt\ntls-key-file server.key\ntls-ca-cert-file ca.crt\ntls-auth-clients yes\n", tlsPort(ports[0]))
		p := i.node(dir, ports[0], conf)
		p.files["server.crt"] = block("CERTIFICATE", cert.Certificate[0])
		p.files["server.key"] = block("PRIVATE KEY", key)
		p.files["ca.crt"] = block("CERTIFICATE", a.cert.Raw)
		return &Server{Kind: KindStandalone, nodes: []*process{p}}
	}
	s, err := start(lay, installed(t, nil), t.TempDir())
	if err != nil && withoutTLS.MatchString(err.Error()) && os.Getenv("RLOCK_REQUIRE_REDIS") != "1" {
		t.Skip("redis-server was built without TLS")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s.lend(t)
}

// TLSAddr returns the host and port at which a server from [TLS] speaks it.
func (s *Server) TLSAddr() string { return loopback(tlsPort(s.nodes[0].port)) }

// tlsPort returns the port of a node's bus, which is free, since a server outside a Cluster
// has no bus.
func tlsPort(port int) int { return port + busOffset }
