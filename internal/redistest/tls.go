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
	"testing"
	"time"
)

// Certificate returns the configuration of a side that has a certificate on loopback, and trusts no other: it has signed
// itself, and both sides have it.
func Certificate(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "redistest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// TLS starts one redis-server that also speaks TLS, at [Server.TLSAddr], and returns the configuration
// of its clients: it accepts only those with the certificate that it has itself.
func TLS(t testing.TB) (*Server, *tls.Config) {
	t.Helper()
	config := Certificate(t)
	speak := speaker(t, config)
	return own(t, func(i installation, dir string, ports []int) *Server {
		return &Server{Kind: KindStandalone, nodes: []*instance{speak(i.node(dir, ports[0], ""))}}
	}), config
}

// SentinelTLS is [Sentinel] with servers that speak TLS among themselves, and name the ports of TLS
// to clients: connect to [Server.TLSAddrs], as with [TLS].
func SentinelTLS(t testing.TB) (*Server, *tls.Config) {
	t.Helper()
	config := Certificate(t)
	return own(t, layWatched(tlsPort, speaker(t, config))), config
}

// speaker returns what makes an instance speak TLS, with clients and other instances.
func speaker(t testing.TB, config *tls.Config) func(*instance) *instance {
	t.Helper()
	own := config.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return func(p *instance) *instance {
		p.link = tlsPort(p.port)
		p.files[confFile] += fmt.Sprintf("tls-port %d\ntls-cert-file server.crt\ntls-key-file server.key\ntls-ca-cert-file server.crt\ntls-auth-clients yes\ntls-replication yes\n", p.link)
		p.files["server.crt"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
		p.files["server.key"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
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
