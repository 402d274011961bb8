import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Properties;
import java.util.TreeMap;

/** Reads one base64 properties file a line, answers its pairs as one line: key=value in base64 of UTF-16, sorted. */
public final class PropertiesEcho {
    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, true, "US-ASCII");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(Base64.getDecoder().decode(line)));
        }
    }

    private static String answer(byte[] file) throws IOException {
        Properties properties = new Properties();
        try {
            properties.load(new ByteArrayInputStream(file));
        } catch (IllegalArgumentException reason) {
            return "refused";
        }
        StringBuilder pairs = new StringBuilder("read");
        TreeMap<String, String> sorted = new TreeMap<>();
        properties.forEach((key, value) -> sorted.put((String) key, (String) value));
        sorted.forEach((key, value) -> pairs.append(' ').append(encode(key)).append('=').append(encode(value)));
        return pairs.toString();
    }

    private static String encode(String text) {
        // Not getBytes: it would replace half a surrogate pair, which Properties itself carries.
        byte[] units = new byte[2 * text.length()];
        for (int i = 0; i < text.length(); i++) {
            units[2 * i] = (byte) (text.charAt(i) >> 8);
            units[2 * i + 1] = (byte) text.charAt(i);
        }
        return Base64.getUrlEncoder().withoutPadding().encodeToString(units);
    }
}
