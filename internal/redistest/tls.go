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

// Certificate returns the configuration of a side that has a certificate on loopback, and trusts no
// other: it has signed itself, and both sides have it.
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

// TLS starts one redis-server that also speaks TLS, at [Server.TLSAddr], and returns the
// configuration of its clients: it accepts only those with the certificate that it has itself.
func TLS(t testing.TB) (*Server, *tls.Config) {
	t.Helper()
	config := Certificate(t)
	certificate := config.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return own(t, func(i installation, dir string, ports []int) *Server {
		p := i.node(dir, ports[0], fmt.Sprintf("tls-port %d\ntls-cert-file server.crt\ntls-key-file server.key\ntls-ca-cert-file server.crt\ntls-auth-clients yes\n", ports[0]+busOffset))
		p.files["server.crt"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
		p.files["server.key"] = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
		return &Server{Kind: KindStandalone, nodes: []*instance{p}}
	}), config
}

// TLSAddr returns the host and port at which a server from [TLS] speaks it: the port of a node's
// bus, which is free, since a server outside a Cluster has no bus.
func (s *Server) TLSAddr() string { return loopback(s.nodes[0].port + busOffset) }
