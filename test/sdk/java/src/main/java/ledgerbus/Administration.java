package ledgerbus;

import com.azure.core.http.HttpClient;
import com.azure.core.http.netty.NettyAsyncHttpClientBuilder;
import com.azure.core.http.policy.FixedDelayOptions;
import com.azure.core.http.policy.PortPolicy;
import com.azure.core.http.policy.RetryOptions;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClient;
import com.azure.messaging.servicebus.administration.ServiceBusAdministrationClientBuilder;
import java.io.File;
import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.Arrays;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import reactor.netty.http.Http11SslContextSpec;
import reactor.netty.tcp.SslProvider.GenericSslContextSpec;

/** Administration clients of this SDK, which speak HTTPS, and whom clients trust. */
final class Administration {
    private Administration() {}

    /** A client that trusts an authority of the broker's own. The SDK drops the port of a connection string; a policy puts it back. */
    static ServiceBusAdministrationClient client(String connectionString, String authority, boolean stubborn) {
        return new ServiceBusAdministrationClientBuilder()
                .connectionString(connectionString)
                .addPolicy(new PortPolicy(port(connectionString), true))
                .httpClient(trusting(new File(authority)))
                .retryOptions(new RetryOptions(new FixedDelayOptions(stubborn ? 5 : 0, Duration.ofMillis(100))))
                .buildClient();
    }

    static int port(String connectionString) {
        return Arrays.stream(connectionString.split(";"))
                .filter(part -> part.startsWith("Endpoint="))
                .map(part -> URI.create(part.substring("Endpoint=".length())).getPort())
                .findFirst()
                .orElseThrow(() -> new Failure("no endpoint in the connection string"));
    }

    /** Has everything in this process that says nothing else trust an authority: the messaging client has no way to say it. */
    static void trust(String authority) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream in = Files.newInputStream(Path.of(authority))) {
            int i = 0;
            for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                trusted.setCertificateEntry("authority" + i++, certificate);
            }
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        SSLContext.setDefault(context);
    }

    private static HttpClient trusting(File authority) {
        GenericSslContextSpec<?> tls = Http11SslContextSpec.forClient().configure(context -> context.trustManager(authority));
        return new NettyAsyncHttpClientBuilder(reactor.netty.http.client.HttpClient.create().secure(s -> s.sslContext(tls))).build();
    }
}
