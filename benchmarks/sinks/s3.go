package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

const kept = 1 << 20 // objects up to this size under manifests/ can be read again

// sink is one S3 whose buckets exist when they are named. It keeps sizes and the checksums it was told.
type sink struct {
	mu       sync.Mutex
	objects  map[string]*object
	uploads  map[string]*upload
	serial   int
	calls    atomic.Int64
	received atomic.Int64
	methods  map[string]int
}

type object struct {
	Size        int64
	ETag, CRC32 string
	body        []byte
}

type upload struct {
	key   string
	parts map[int]part
}

type part struct {
	size        int64
	etag, crc32 string
}

func newSink() *sink {
	return &sink{objects: map[string]*object{}, uploads: map[string]*upload{}, methods: map[string]int{}}
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 256<<10); return &b }}

// swallow reads a body to its end; aws-chunked framing, where there is any, is taken off the count by the header.
func (s *sink) swallow(r *http.Request, keep bool) (int64, []byte) {
	if keep {
		body, _ := io.ReadAll(r.Body)
		s.received.Add(int64(len(body)))
		return int64(len(body)), unchunked(r, body)
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	var total int64
	for {
		n, err := r.Body.Read(*buffer)
		total += int64(n)
		if err != nil {
			break
		}
	}
	s.received.Add(total)
	if decoded, err := strconv.ParseInt(r.Header.Get("X-Amz-Decoded-Content-Length"), 10, 64); err == nil {
		total = decoded
	}
	return total, nil
}

func unchunked(r *http.Request, body []byte) []byte {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return body
	}
	var out []byte
	for {
		line, rest, _ := strings.Cut(string(body), "\r\n")
		size, err := strconv.ParseInt(strings.Split(line, ";")[0], 16, 64)
		if err != nil || size == 0 {
			return out
		}
		out = append(out, rest[:size]...)
		body = []byte(rest[size+2:])
	}
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/_stats" {
		s.stats(w, r)
		return
	}
	s.calls.Add(1)
	s.count(r)
	query := r.URL.Query()
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case r.Method == "PUT" && query.Has("partNumber"):
		s.putPart(w, r, query)
	case r.Method == "PUT" && key != "":
		s.put(w, r, key)
	case r.Method == "POST" && query.Has("uploads"):
		s.begin(w, key)
	case r.Method == "POST" && query.Has("uploadId"):
		s.complete(w, r, query)
	case r.Method == "POST" && query.Has("delete"):
		s.swallow(r, true)
		s.forget()
		answer(w, "<DeleteResult/>")
	case r.Method == "DELETE" && query.Has("uploadId"):
		s.mu.Lock()
		delete(s.uploads, query.Get("uploadId"))
		s.mu.Unlock()
		w.WriteHeader(204)
	case r.Method == "GET" && query.Has("uploadId"):
		s.listParts(w, query)
	case r.Method == "GET" && query.Has("uploads"):
		s.listUploads(w, query)
	case r.Method == "GET" && query.Has("location"):
		answer(w, "<LocationConstraint/>")
	case r.Method == "GET" && key == "":
		s.list(w, query)
	case key != "":
		s.look(w, r, key)
	default:
		w.Header().Set("X-Amz-Bucket-Region", "us-east-1")
	}
}

func (s *sink) count(r *http.Request) {
	s.mu.Lock()
	s.methods[r.Method]++
	s.mu.Unlock()
}

// stats: calls and bytes since the last DELETE, which forgets everything.
func (s *sink) stats(w http.ResponseWriter, r *http.Request) {
	if r.Method == "DELETE" {
		s.forget()
		s.calls.Store(0)
		s.received.Store(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == "DELETE" {
		s.methods = map[string]int{}
	}
	var size int64
	for _, o := range s.objects {
		size += o.Size
	}
	json.NewEncoder(w).Encode(map[string]any{
		"calls": s.calls.Load(), "received": s.received.Load(), "objects": len(s.objects),
		"bytes": size, "uploads": len(s.uploads), "methods": s.methods,
	})
}

func (s *sink) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.uploads = map[string]*object{}, map[string]*upload{}
}

func (s *sink) put(w http.ResponseWriter, r *http.Request, key string) {
	size, body := s.swallow(r, strings.HasPrefix(key, "manifests/"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("If-None-Match") == "*" && s.objects[key] != nil {
		failed(w, 412, "PreconditionFailed")
		return
	}
	s.serial++
	made := &object{Size: size, ETag: fmt.Sprintf(`"%032x"`, s.serial), CRC32: r.Header.Get("X-Amz-Checksum-Crc32"), body: body}
	s.objects[key] = made
	told(w, made)
}

func told(w http.ResponseWriter, o *object) {
	w.Header().Set("ETag", o.ETag)
	if o.CRC32 != "" {
		w.Header().Set("X-Amz-Checksum-Crc32", o.CRC32)
		w.Header().Set("X-Amz-Checksum-Type", "FULL_OBJECT")
	}
}

func (s *sink) begin(w http.ResponseWriter, key string) {
	s.mu.Lock()
	s.serial++
	id := fmt.Sprintf("upload-%d", s.serial)
	s.uploads[id] = &upload{key: key, parts: map[int]part{}}
	s.mu.Unlock()
	answer(w, "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>"+escaped(key)+"</Key><UploadId>"+id+
		"</UploadId></InitiateMultipartUploadResult>")
}

func (s *sink) putPart(w http.ResponseWriter, r *http.Request, query url.Values) {
	size, _ := s.swallow(r, false)
	number, _ := strconv.Atoi(query.Get("partNumber"))
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.uploads[query.Get("uploadId")]
	if found == nil {
		failed(w, 404, "NoSuchUpload")
		return
	}
	s.serial++
	made := part{size: size, etag: fmt.Sprintf(`"%032x"`, s.serial), crc32: r.Header.Get("X-Amz-Checksum-Crc32")}
	found.parts[number] = made
	w.Header().Set("ETag", made.etag)
	if made.crc32 != "" {
		w.Header().Set("X-Amz-Checksum-Crc32", made.crc32)
	}
}

func (s *sink) complete(w http.ResponseWriter, r *http.Request, query url.Values) {
	s.swallow(r, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.uploads[query.Get("uploadId")]
	if found == nil {
		failed(w, 404, "NoSuchUpload")
		return
	}
	made := &object{CRC32: r.Header.Get("X-Amz-Checksum-Crc32")}
	for _, p := range found.parts {
		made.Size += p.size
	}
	s.serial++
	made.ETag = fmt.Sprintf(`"%032x-%d"`, s.serial, len(found.parts))
	s.objects[found.key] = made
	delete(s.uploads, query.Get("uploadId"))
	answer(w, "<CompleteMultipartUploadResult><Bucket>b</Bucket><Key>"+escaped(found.key)+"</Key><ETag>"+
		escaped(made.ETag)+"</ETag><ChecksumCRC32>"+made.CRC32+
		"</ChecksumCRC32><ChecksumType>FULL_OBJECT</ChecksumType></CompleteMultipartUploadResult>")
}

func (s *sink) look(w http.ResponseWriter, r *http.Request, key string) {
	s.mu.Lock()
	found := s.objects[key]
	s.mu.Unlock()
	if found == nil {
		failed(w, 404, "NoSuchKey")
		return
	}
	told(w, found)
	w.Header().Set("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
	w.Header().Set("Content-Length", strconv.FormatInt(found.Size, 10))
	if r.Method == "GET" {
		w.Write(found.body)
	}
}

func (s *sink) list(w http.ResponseWriter, query url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{}
	for key := range s.objects {
		if strings.HasPrefix(key, query.Get("prefix")) && key > query.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	more := len(keys) > 1000
	if more {
		keys = keys[:1000]
	}
	var text strings.Builder
	fmt.Fprintf(&text, "<ListBucketResult><Name>b</Name><Prefix>%s</Prefix><KeyCount>%d</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>%t</IsTruncated>",
		escaped(query.Get("prefix")), len(keys), more)
	if more {
		text.WriteString("<NextContinuationToken>" + escaped(keys[999]) + "</NextContinuationToken>")
	}
	for _, key := range keys {
		o := s.objects[key]
		fmt.Fprintf(&text, "<Contents><Key>%s</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>%s</ETag><Size>%d</Size></Contents>",
			escaped(key), escaped(o.ETag), o.Size)
	}
	answer(w, text.String()+"</ListBucketResult>")
}

func (s *sink) listParts(w http.ResponseWriter, query url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.uploads[query.Get("uploadId")]
	if found == nil {
		failed(w, 404, "NoSuchUpload")
		return
	}
	var text strings.Builder
	text.WriteString("<ListPartsResult><IsTruncated>false</IsTruncated>")
	for number := 1; number <= 10000; number++ {
		if p, there := found.parts[number]; there {
			fmt.Fprintf(&text, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag><Size>%d</Size><ChecksumCRC32>%s</ChecksumCRC32></Part>",
				number, escaped(p.etag), p.size, p.crc32)
		}
	}
	answer(w, text.String()+"</ListPartsResult>")
}

func (s *sink) listUploads(w http.ResponseWriter, query url.Values) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text strings.Builder
	text.WriteString("<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>")
	for id, u := range s.uploads {
		if strings.HasPrefix(u.key, query.Get("prefix")) {
			fmt.Fprintf(&text, "<Upload><Key>%s</Key><UploadId>%s</UploadId><Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>",
				escaped(u.key), id)
		}
	}
	answer(w, text.String()+"</ListMultipartUploadsResult>")
}

func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/xml")
	w.Write([]byte(`<?xml version="1.0" encoding="UTF-8"?>` + text))
}

func failed(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func escaped(text string) string {
	var out strings.Builder
	xml.EscapeText(&out, []byte(text))
	return out.String()
}
