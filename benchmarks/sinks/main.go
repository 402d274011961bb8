// Two far sides for benchmarks/transfer.py, over TLS on loopback: a Hub that serves made-up files out of memory, and
// an S3 that throws bodies away and answers as if it had kept them. Neither does more per byte than it must, so that
// what is measured is the client between them. Standard library only.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

func main() {
	folder := flag.String("folder", "", "where ca.pem and the addresses are written")
	count := flag.Int("count", 4, "files of the model")
	size := flag.Int64("size", 1<<30, "bytes of each")
	small := flag.Int("small", 6, "small files beside")
	smallSize := flag.Int64("small-size", 2000, "bytes of each small file")
	rate := flag.Int64("rate", 0, "bytes a second for each connection to the Hub's store; 0: no limit")
	hashes := flag.String("hashes", "", "file that remembers the hashes of large files")
	flag.Parse()
	certificate := certificates(*folder)
	hub := newHub(*count, *size, *small, *smallSize, *rate, &known{path: *hashes})
	hub.store = serve("hub-store", *folder, certificate, http.HandlerFunc(hub.bytes))
	serve("hub", *folder, certificate, http.HandlerFunc(hub.answer))
	serve("s3", *folder, certificate, newSink())
	go func() { // end with the benchmark that started us
		parent := os.Getppid()
		for os.Getppid() == parent {
			time.Sleep(500 * time.Millisecond)
		}
		os.Exit(0)
	}()
	fmt.Println("ready")
	select {}
}

// serve answers at a free port of localhost, and leaves the address in folder/name.
func serve(name, folder string, certificate tls.Certificate, handler http.Handler) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	address := fmt.Sprintf("https://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	check(os.WriteFile(filepath.Join(folder, name), []byte(address), 0o600))
	quiet := log.New(os.Stderr, "", 0)
	// HTTP/1.1 only, as S3 and the Hub's stores speak it to all these clients.
	settings := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}}
	server := &http.Server{Handler: handler, ErrorLog: quiet, TLSConfig: settings}
	go func() { check(server.ServeTLS(listener, "", "")) }()
	return address
}

// certificates makes an authority nobody else knows, writes it to folder/ca.pem, and lets it vouch for localhost.
func certificates(folder string) tls.Certificate {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lmi benchmark"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	vouching, made := signed(authority, authority, nil)
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	check(os.WriteFile(filepath.Join(folder, "ca.pem"), text, 0o600))
	localhost := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.ParseIP("127.0.0.1")},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	key, made := signed(localhost, authority, vouching)
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}
}

// signed makes a key and its certificate; without a signer it signs itself.
func signed(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*ecdsa.PrivateKey, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	if signer == nil {
		signer = key
	}
	made, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	check(err)
	return key, made
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
