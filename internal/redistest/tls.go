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
	speak := a.speaker(t)
	return ownTLS(t, func(i installation, dir string, ports []int) *Server {
		return &Server{Kind: KindStandalone, nodes: []*process{speak(i.node(dir, ports[0], ""))}}
	})
}

// SentinelTLS is [Sentinel] with servers that speak TLS among themselves, and name the ports of TLS
// to clients: connect to [Server.TLSAddrs] with a certificate of the authority, as with [TLS].
func SentinelTLS(t testing.TB, a *Authority) *Server {
	t.Helper()
	return ownTLS(t, layWatched(tlsPort, a.speaker(t)))
}

// ownTLS is own for servers that speak TLS, which a server may be built without.
func ownTLS(t testing.TB, lay layout) *Server {
	t.Helper()
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

// speaker returns what makes a process speak TLS, with clients and other processes.
func (a *Authority) speaker(t testing.TB) func(*process) *process {
	t.Helper()
	cert := a.Issue(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return func(p *process) *process {
		p.link = tlsPort(p.port)
		p.files[confFile] += fmt.Sprintf("tls-port %d\ntls-cert-file server.crt\ntls-key-file server.key\ntls-ca-cert-file ca.crt\ntls-auth-clients yes\ntls-replication yes\n", p.link)
		p.files["server.crt"] = block("CERTIFICATE", cert.Certificate[0])
		p.files["server.key"] = block("PRIVATE KEY", key)
		p.files["ca.crt"] = block("CERTIFICATE", a.cert.Raw)
		return p
	}
}

// TLSAddrs returns the hosts and ports at which a server from [TLS] or [SentinelTLS] speaks it
// with clients.
func (s *Server) TLSAddrs() (addrs []string) {
	entries := s.sentinels
	if s.Kind == KindStandalone {
		entries = s.nodes
	}
	for _, p := range entries {
		addrs = append(addrs, loopback(p.link))
	}
	return addrs
}

// TLSAddr returns the first of TLSAddrs.
func (s *Server) TLSAddr() string { return s.TLSAddrs()[0] }

// tlsPort returns the port of a node's bus, which is free, since a server outside a Cluster
// has no bus.
func tlsPort(port int) int { return port + busOffset }
