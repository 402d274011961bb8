package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const block = 8 << 20
const commit = "0123456789012345678901234567890123456789"

// hub serves files that exist as one block of noise, read over and over from another place in each file.
type hub struct {
	noise []byte
	known *known
	files map[string]*file
	order []*file
	store string
	rate  int64
}

type file struct {
	path        string
	size, begin int64
	sha256, git string
}

func newHub(count int, size int64, small int, smallSize, rate int64, known *known) *hub {
	h := &hub{noise: make([]byte, block), files: map[string]*file{}, rate: rate, known: known}
	rand.New(rand.NewSource(5)).Read(h.noise)
	for i := 0; i < count; i++ {
		h.order = append(h.order, &file{path: fmt.Sprintf("model-%05d.safetensors", i+1), size: size, begin: int64(i+1) * 4099})
	}
	for i := 0; i < small; i++ {
		h.order = append(h.order, &file{path: fmt.Sprintf("parts/small-%05d.json", i+1), size: smallSize, begin: int64(i+9) * 515})
	}
	var all sync.WaitGroup
	for _, f := range h.order {
		h.files[f.path] = f
	}
	turns := make(chan bool, 2)
	for _, f := range h.order {
		all.Add(1)
		go func() {
			turns <- true
			h.seal(f)
			<-turns
			all.Done()
		}()
	}
	all.Wait()
	return h
}

func (h *hub) seal(f *file) {
	large := strings.HasSuffix(f.path, ".safetensors")
	name := fmt.Sprintf("%x %d %d", sha256.Sum256(h.noise), f.begin, f.size)
	if large {
		if f.sha256, f.git = h.known.find(name); f.sha256 != "" {
			return
		}
		defer func() { h.known.add(name, f.sha256, f.git) }()
	}
	git := sha1.New()
	fmt.Fprintf(git, "blob %d\x00", f.size)
	seal := sha256.New()
	h.pieces(f, 0, f.size, func(piece []byte) error {
		if large {
			seal.Write(piece)
		} else {
			git.Write(piece)
		}
		return nil
	})
	if large {
		f.sha256 = hex.EncodeToString(seal.Sum(nil))
	}
	f.git = hex.EncodeToString(git.Sum(nil))
}

// known remembers the hashes of large files from run to run: 40 GiB take half a minute.
type known struct {
	mu   sync.Mutex
	path string
}

func (k *known) find(name string) (string, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	text, _ := os.ReadFile(k.path)
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, name+" "); found && len(rest) == 105 {
			return rest[:64], rest[65:]
		}
	}
	return "", ""
}

func (k *known) add(name, sha256, git string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if file, err := os.OpenFile(k.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintf(file, "%s %s %s\n", name, sha256, git)
		file.Close()
	}
}

func (h *hub) pieces(f *file, start, stop int64, take func([]byte) error) {
	for start < stop {
		from := (f.begin + start) % block
		piece := h.noise[from:min(block, from+stop-start)]
		if take(piece) != nil {
			return
		}
		start += int64(len(piece))
	}
}

func (h *hub) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.Contains(r.URL.Path, "/tree/"):
		h.tree(w)
	case strings.HasPrefix(r.URL.Path, "/api/models/"):
		h.model(w)
	case strings.Contains(r.URL.Path, "/resolve/"):
		h.resolve(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"standardEnvVars": [], "harnesses": {}}`))
	}
}

func (h *hub) model(w http.ResponseWriter) {
	siblings := []map[string]any{}
	for _, f := range h.order {
		found := map[string]any{"rfilename": f.path, "size": f.size, "blobId": f.git}
		if f.sha256 != "" {
			found["lfs"] = map[string]any{"sha256": f.sha256, "size": f.size, "pointerSize": 134}
		}
		siblings = append(siblings, found)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{
		"_id": "0", "id": "org/model", "modelId": "org/model", "sha": commit, "private": false, "gated": false,
		"disabled": false, "downloads": 0, "likes": 0, "tags": []string{}, "siblings": siblings,
	})
}

func (h *hub) tree(w http.ResponseWriter) {
	entries := []map[string]any{}
	for _, f := range h.order {
		entry := map[string]any{"type": "file", "oid": f.git, "size": f.size, "path": f.path}
		if f.sha256 != "" {
			entry["lfs"] = map[string]any{"oid": f.sha256, "size": f.size, "pointerSize": 134}
		}
		entries = append(entries, entry)
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(entries)
}

func (h *hub) resolve(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(r.URL.Path, "/resolve/")
	_, path, _ = strings.Cut(path, "/")
	f := h.files[path]
	if f == nil {
		w.Header().Set("X-Error-Code", "EntryNotFound")
		w.WriteHeader(404)
		return
	}
	w.Header().Set("X-Repo-Commit", commit)
	if f.sha256 == "" {
		h.ranged(w, r, f)
		return
	}
	w.Header().Set("X-Linked-Size", strconv.FormatInt(f.size, 10))
	w.Header().Set("X-Linked-Etag", `"`+f.sha256+`"`)
	w.Header().Set("Location", h.store+"/"+f.path+"?Expires=9999999999&Signature=bench")
	w.WriteHeader(302)
}

func (h *hub) bytes(w http.ResponseWriter, r *http.Request) {
	h.ranged(w, r, h.files[strings.TrimPrefix(r.URL.Path, "/")])
}

func (h *hub) ranged(w http.ResponseWriter, r *http.Request, f *file) {
	start, stop, status := int64(0), f.size, 200
	if asked := r.Header.Get("Range"); asked != "" {
		var last int64
		if n, _ := fmt.Sscanf(asked, "bytes=%d-%d", &start, &last); n == 2 {
			stop = min(f.size, last+1)
		}
		status = 206
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, stop-1, f.size))
	}
	name := f.sha256
	if name == "" {
		name = f.git
	}
	w.Header().Set("ETag", `"`+name+`"`)
	w.Header().Set("Accept-Ranges", "bytes")
	w.Header().Set("Content-Length", strconv.FormatInt(stop-start, 10))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		h.send(w, f, start, stop)
	}
}

func (h *hub) send(w http.ResponseWriter, f *file, start, stop int64) {
	if h.rate == 0 {
		h.pieces(f, start, stop, func(piece []byte) error { _, err := w.Write(piece); return err })
		return
	}
	begun, sent, slice := time.Now(), int64(0), int64(1<<20)
	for at := start; at < stop; at += slice {
		h.pieces(f, at, min(stop, at+slice), func(piece []byte) error { _, err := w.Write(piece); return err })
		sent += slice
		time.Sleep(time.Duration(float64(sent)/float64(h.rate)*1e9) - time.Since(begun))
	}
}
